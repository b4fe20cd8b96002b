"""What the pages of the claims show: the paper's words, the weight with its size, and what to do differently."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape

from typer.testing import CliRunner

from proofs_check import CLAIMS
from proofs_check.checked import CheckedClaim, check_claim, practice
from proofs_check.claims import WEIGHTS, papers
from proofs_check.markdown import claims_markdown
from proofs_check.page import claims_page
from spectheory.cli import app

WEIGHED = "D-PRUNE"


@cache
def checked(name: str) -> CheckedClaim:
    return check_claim(name)


def flat(page: str) -> str:
    """The text of an HTML page in one line."""
    page = re.sub(r"</?code>", "", page)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_every_claim_of_a_paper_has_the_words_of_the_paper() -> None:
    published = {name: one for name, one in CLAIMS.items() if one.paper.bibtex}
    assert len(published) == 112
    for name, one in published.items():
        assert one.quotes, name
        for place, words in one.quotes.items():
            assert re.match(
                r"(abstract|footnote|(Section|Appendix|Table|Algorithm|Theorem|Proposition) \w|[A-E]\.\d)", place
            )
            assert len(re.sub(r"\[\.\.\.\]|\W", "", words)) >= 20, (name, words)
            assert '"' not in words


def test_a_claim_without_a_paper_quotes_none() -> None:
    assert [one.quotes for one in CLAIMS.values() if not one.paper.bibtex] == [{}] * 5


def test_pages_show_the_quoted_sentence_with_its_place() -> None:
    ((place, words),) = CLAIMS[WEIGHED].quotes.items()
    assert f'> "{words}" ({place})\n' in claims_markdown([checked(WEIGHED)])
    assert f"<blockquote>&ldquo;{words}&rdquo; <small>{place}</small></blockquote>" in claims_page([checked(WEIGHED)])


def test_pages_show_the_weight_and_its_size() -> None:
    found = checked(WEIGHED)
    assert found.weight == "changes practice"
    size = found.text("size")
    assert size is not None
    assert "(5/8, 3/8)" in size
    page = flat(claims_page([found]))
    assert f"How much. {size}" in page
    assert f"{WEIGHED} corrected changes practice Delayed tree expansion" in page
    assert f"{WEIGHTS['changes practice'].capitalize()}." in page
    markdown = claims_markdown([found])
    assert "**corrected**, changes practice. " in markdown
    assert f"**How much.** {size}\n" in markdown


def test_what_changes_practice_says_by_how_much() -> None:
    changing = [one for one in CLAIMS.values() if one.weight == "changes practice"]
    assert len(changing) == 14
    for one in changing:
        assert one.size, one.id
        assert re.search(r"\{\w+", one.size), f"{one.id}: a size has a number that the check computes"


def test_a_claim_that_holds_has_no_weight() -> None:
    page = claims_page([checked("O-STOP")])
    assert 'class="weight"' not in page
    assert "What a claim that does not hold costs" not in page
    assert "How much" not in page


def test_each_paper_opens_with_what_to_do_differently() -> None:
    advised = [paper for paper in papers() if paper.practice]
    assert len(advised) == 6
    for paper in advised:
        found = next(
            one
            for one in map(checked, ("G-P2-MARG", "S-BEAM", "O-STOP", WEIGHED, "T-CE", "R-REJECTED"))
            if one.claim.paper is paper
        )
        page, told = flat(claims_page([found])), practice(paper)
        assert told.startswith("- ")
        assert "{" not in told
        head, _, rest = page.partition("What to do differently.")
        assert head.endswith(f"{paper.title} ")
        for item in re.split(r"(?m)^- ", told)[1:]:
            shown = " ".join(item.replace("`", "").split())
            assert shown in " ".join(rest.split())


def test_the_command_shows_the_quotation_the_weight_and_the_size() -> None:
    told = " ".join(CliRunner().invoke(app, ["check", WEIGHED], env={"COLUMNS": "80"}).stdout.split())
    for words in ("corrected, changes practice (", 'the paper, Section 2.2: "Note that', "how much: p = (1/2, 1/2)"):
        assert words in told
    (shown,) = json.loads(CliRunner().invoke(app, ["check", WEIGHED, "--json"]).stdout)
    assert shown["quotes"] == dict(CLAIMS[WEIGHED].quotes)
    assert (shown["weight"], shown["size"]) == ("changes practice", checked(WEIGHED).text("size"))
