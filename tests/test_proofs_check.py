"""Every claim's check comes out as docs/claims.md records it, and what does not simply hold is confirmed again.

Each claim is checked in one test of its own, so that the checks are shared out among parallel workers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import proofs_check
from proofs_check import CLAIMS, SECOND, Verdict, decide
from proofs_check.drawing import tree_drawings
from proofs_check.markdown import head, introduction, section
from proofs_check.outcome import leaned_on, outcome, paragraphs, plain, spelled
from proofs_check.page import claims_page
from proofs_check.papers import PAPERS, in_order, named
from proofs_check.verdict import AGAIN, LEANED_ON, RULE, claim, every, second, smallest
from spectheory.cli import app

PAGE = (Path(__file__).parent.parent / "docs" / "claims.md").read_text(encoding="utf-8")
PIECES = re.split(r"^(?=#{2,} )", PAGE, flags=re.MULTILINE)
"""The page cut at its headings: its head, and for each paper an introduction and its claims."""
RECORDED = dict(re.findall(r"^### (\S+): (holds|corrected|false)$", PAGE, re.MULTILINE))
REPAIR = "run python docs/generate_claims.py"


@pytest.mark.parametrize("name", CLAIMS)
def test_a_check_comes_out_as_recorded(name: str) -> None:
    found = outcome(name)
    assert found.verdict is not None, found.failure
    assert found.status == RECORDED.get(name), REPAIR
    assert piece(f"### {name}:") == section(found), REPAIR
    assert found.verdict.evidence
    assert found.verdict.method
    assert (AGAIN in found.verdict.evidence) == (name in SECOND)
    assert name in SECOND or found.status == "holds"
    assert not [number for number in leaves(found.verdict.counterexample) if isinstance(number, float)]
    json.dumps(found.to_json(), allow_nan=False)


def piece(heading: str) -> str:
    """The piece of the page that begins so, without the empty line to the next one."""
    (found,) = [at for at, one in enumerate(PIECES) if one.startswith(heading)]
    return PIECES[found] if found == len(PIECES) - 1 else PIECES[found].removesuffix("\n")


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        yield value
        return
    for inner in value:
        yield from leaves(inner)


def test_every_listed_claim_has_a_check() -> None:
    listed = [name for paper in PAPERS for name in paper.listed]
    assert len(listed) == len(set(listed)) == 63
    assert set(listed) <= set(CLAIMS)


def test_the_page_of_claims_lists_them_all_in_order() -> None:
    assert list(RECORDED) == in_order(CLAIMS), REPAIR
    assert len(RECORDED) == len(CLAIMS)
    headings = []
    for paper in PAPERS:
        headings += [f"## {paper.name}", *(f"### {n}: {RECORDED[n]}" for n in in_order(filter(paper.owns, CLAIMS)))]
    assert [one.partition("\n")[0] for one in PIECES[1:]] == headings, REPAIR


def test_the_page_of_claims_holds_nothing_else() -> None:
    """Each piece is what is written for it; those of the claims are held to that one by one, above."""
    assert PIECES[0] == head(RECORDED) + "\n", REPAIR
    for paper in PAPERS:
        assert piece(f"## {paper.name}\n") == introduction(paper), REPAIR
    assert "".join(PIECES) == PAGE
    assert PAGE.endswith("\n")
    assert not PAGE.endswith("\n\n")


def test_second_checks_are_of_claims_and_written_apart() -> None:
    assert set(SECOND) <= set(CLAIMS)
    for name, confirm in SECOND.items():
        assert confirm is not CLAIMS[name].check


def test_a_second_check_that_disagrees_leaves_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def disagree(verdict: Verdict) -> str:
        raise AssertionError(f"{verdict.status} is not what I find")

    monkeypatch.setitem(SECOND, "O-SIZE", disagree)
    with pytest.raises(AssertionError, match="not what I find"):
        decide("O-SIZE")
    assert outcome("O-SIZE").status == "failed"
    assert CliRunner().invoke(app, ["check", "O-SIZE"]).exit_code == 1
    assert "AssertionError: corrected is not" in claims_page([outcome("O-SIZE")])


def test_a_second_check_reads_the_counterexample_that_it_is_given() -> None:
    found = CLAIMS["O-EA"].check(1)
    spoilt = {**found.case, "any": {**found.case["any"], "better_accepted": Fraction(1, 2)}}
    with pytest.raises(AssertionError):
        SECOND["O-EA"](Verdict("corrected", "", "", spoilt, "so"))


def test_a_verdict_states_what_it_needs() -> None:
    with pytest.raises(ValueError, match="counterexample"):
        Verdict("false", "because", "so")
    with pytest.raises(ValueError, match="corrected"):
        Verdict("corrected", "because", "so", {"n": 1})
    with pytest.raises(ValueError, match="corrected"):
        Verdict("holds", "because", "so", corrected="something else")


def test_a_check_that_does_not_come_out_gives_no_verdict() -> None:
    with pytest.raises(LookupError):
        smallest(range(3), lambda case: case > 5)
    with pytest.raises(ArithmeticError, match="fails on 2"):
        every(range(3), lambda case: case < 2)


def test_a_claim_is_registered_once_and_stated() -> None:
    with pytest.raises(ValueError, match="already"):
        claim("O-SIZE", source="")(CLAIMS["O-SIZE"].check)
    with pytest.raises(ValueError, match="already"):
        second("O-SIZE")(SECOND["O-SIZE"])
    with pytest.raises(ValueError, match="docstring"):
        claim("O-NEW", source="")(lambda effort: Verdict("holds", "", ""))


def test_a_reading_of_what_a_paper_leans_on_says_so() -> None:
    leaned_on = [name for name, one in CLAIMS.items() if LEANED_ON in one.source]
    assert {"D-ROOTS", "D-NSS"} <= set(leaned_on)
    assert f"({LEANED_ON})" in section(outcome("D-NSS"))
    (shown,) = json.loads(CliRunner().invoke(app, ["check", "D-NSS", "--json"]).stdout)
    assert LEANED_ON in shown["source"]


def test_claims_that_are_leaned_on_are_counted_apart() -> None:
    apart = [name for name, one in CLAIMS.items() if not one.stated]
    assert f"{len(apart)} of them {LEANED_ON}: " in PIECES[0]
    assert leaned_on(["O-EA"], ["corrected"]) == ""
    assert leaned_on(["O-EA", "D-NSS"], ["corrected", "false"]) == f"1 of them {LEANED_ON}: 1 false"


def test_the_rule_for_what_does_not_hold_is_printed() -> None:
    assert RULE in PIECES[0]
    assert RULE in claims_page([outcome("O-EA")])


def test_many_claims_have_one_line_each_and_few_their_evidence() -> None:
    names = ["O-EA", "O-SIZE", "O-TABLES", "O-LAYER"]
    many = CliRunner().invoke(app, ["check", *names], env={"COLUMNS": "80"}).stdout
    assert sum(line.startswith("O-") for line in many.splitlines()) == len(names)
    assert len(many.splitlines()) < 2 * len(names)
    few = CliRunner().invoke(app, ["check", "O-LAYER"], env={"COLUMNS": "80"}).stdout
    for words in ("claim: ", "what is true: ", "evidence: ", "Second check"):
        assert words in few


def test_what_a_page_lists_is_laid_out() -> None:
    assert "\nnot_to_be_weakened:\n  - tokens: 2\n    batch: 2\n" in piece("### S-T1-B:")


def test_the_command_prints_json_without_rounding() -> None:
    result = CliRunner().invoke(app, ["check", "o-ea", "--json"])
    assert result.exit_code == 0
    (found,) = json.loads(result.stdout)
    assert (found["id"], found["status"]) == ("O-EA", "corrected")
    assert found["counterexample"]["greedy"]["draft"] == ["3/5", "2/5"]
    assert {"id", "status", "evidence", "method", "corrected", "source", "statement", "seconds"} <= set(found)


def test_a_claim_is_named_by_its_id_or_by_how_that_begins() -> None:
    known = ["S-T1", "S-T1-W", "O-3.1", "O-SUB"]
    assert named("s-t1", known) == ["S-T1"]
    assert named("O", known) == ["O-3.1", "O-SUB"]
    with pytest.raises(ValueError, match="did you mean S-T1"):
        named("s-t11", known)


def test_the_command_names_near_ids() -> None:
    result = CliRunner().invoke(app, ["check", "O-SIZ"])
    assert result.exit_code == 2
    assert "did you mean O-SIZE" in result.stderr


def test_the_report_draws_the_tree(tmp_path: Path) -> None:
    file = tmp_path / "claims.html"
    result = CliRunner().invoke(app, ["check", "O-SIZE", "O-EA", "--report", str(file)])
    assert result.exit_code == 0
    assert "2 corrected" in result.stdout
    page = file.read_text(encoding="utf-8")
    for words in ('id="O-SIZE"', "spectheory check O-EA", "<svg", "filled: better", "second check"):
        assert words in page
    assert "http" not in page
    assert "<script" not in page


def test_python_m_is_the_command() -> None:
    run = [sys.executable, "-m", "proofs_check", "O-EA", "--json"]
    result = subprocess.run(run, capture_output=True, check=True, text=True, cwd=Path(proofs_check.__file__).parents[1])
    assert json.loads(result.stdout)[0]["id"] == "O-EA"


def test_the_command_names_the_extra_that_is_missing() -> None:
    code = (
        "import sys; sys.modules['sympy'] = None\n"
        "sys.argv = ['spectheory', 'check', 'O-EA']\n"
        "from spectheory.cli import app\n"
        "app()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert result.returncode == 2
    assert result.stderr == "error: this command needs sympy: pip install 'spectheory[proofs]'\n"


def test_a_drawing_fills_what_was_chosen() -> None:
    case = {
        "parent": [-1, 0, 0, 1],
        "node": ["", "A", "B", "AA"],
        "p_hat": {"A": Fraction(2, 3)},
        "chosen": ["A", "AA"],
    }
    (drawing,) = tree_drawings(case)
    assert drawing.count('class="filled"') == 2
    assert ">A 2/3<" in drawing
    assert drawing.count("<path") == 3


def test_numbers_are_spelled_without_loss() -> None:
    assert plain({"p": (Fraction(1, 3), 2), (1, 2): {Fraction(1)}}) == {"p": ["1/3", 2], "[1, 2]": ["1"]}
    assert spelled({"a": [Fraction(1, 3), [1, 0]], "": None}) == "a: (1/3, (1, 0)), root: none"
    assert paragraphs("One\ntwo.\n\n    x = 1\n    y = 2") == ["One two.", "    x = 1\n    y = 2"]
