"""Every claim's check comes out as its table in claims.toml records it.

Each claim is checked in one test of its own, so that the checks are shared out among parallel workers.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import proofs_check
from proofs_check import CLAIMS, SECOND, Claim, Finding, decide
from proofs_check.checked import AGAIN, check_claim, leaned_on
from proofs_check.claims import (
    LEANED_ON,
    RULE,
    Case,
    Paper,
    claim,
    every,
    filled,
    in_order,
    named,
    papers,
    second,
    smallest,
)
from proofs_check.drawing import tree_drawings
from proofs_check.goose import walks
from proofs_check.markdown import claims_markdown, head, introduction, section
from proofs_check.page import claims_page
from proofs_check.plain import paragraphs, plain, spelled
from proofs_check.plays import runs
from proofs_check.sentences import formulas, in_latex, in_plain, judged, keeps_the_conclusion, outside
from proofs_check.steps import at_most
from spectheory.cli import app
from spectheory.core.errors import InputError
from tests.refusals import refuses

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "claims.md"


@pytest.mark.parametrize("name", CLAIMS)
def test_a_check_comes_out_as_recorded(name: str) -> None:
    found = check_claim(name)
    assert found.finding is not None, found.failure
    assert f"### {name}\n\n**{found.status}**" in section(found)
    assert section(found) in PAGE.read_text(), "docs/claims.md is older than the check: run `make claims`"
    assert plain(found.finding.numbers) == CLAIMS[name].numbers
    assert not [number for number in leaves(found.finding.counterexample) if isinstance(number, float)]
    json.dumps(found.to_json(), allow_nan=False)


def test_the_page_begins_with_the_verdicts_and_each_paper_with_what_to_do() -> None:
    page = PAGE.read_text()
    statuses = {name: re.search(rf"### {name}\n\n\*\*(\w+)\*\*", page)[1] for name in in_order(CLAIMS)}  # type: ignore[index]
    top = head(statuses)
    assert page.startswith(top)
    assert all(f"[{name}](#" in top for name in CLAIMS)
    assert "SpecTr at rho*" in top  # an open problem
    assert all(
        "**What to do differently.**" in introduction(paper) and introduction(paper) in page for paper in papers()
    )


FALSE_SENTENCES = {
    "D-RHO-OPT": ("[[every factor: p_acc <= acceptance]]", "[[every factor: gap <= 0 implies p_acc >= acceptance]]"),
    "S-A2-ENS": ("[[every state: G_and_Q == best_seen]]", "[[every state: G == best_seen]]"),
    "O-MU": ("gain > mu * speed)", "gain > mu)"),
    "G-P1-EXCL": ("accepted == b * p_t >= Q", "accepted == b * p_t <= Q"),
    "T-DEBIAS": ("2 * covariance >= variance_of_reference", "covariance >= 0"),
    "D-RHO": ("[[every setting: shared > 0 implies", "[[every setting: shared >= 0 implies"),
}


@pytest.mark.parametrize("name", FALSE_SENTENCES)
def test_a_false_sentence_fails_the_claim(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true, false = FALSE_SENTENCES[name]
    claimed = " ".join((CLAIMS[name].corrected or "").split())
    assert true in claimed
    monkeypatch.setattr(Claim, "__post_init__", lambda self: None)  # its terms may no longer be those of the formulas
    monkeypatch.setitem(CLAIMS, name, replace(CLAIMS[name], corrected=claimed.replace(true, false)))
    assert "ArithmeticError: false: for every" in check_claim(name).failure


@pytest.mark.parametrize("name", ["D-RHO-VALID", "S-T1-W", "G-EEXT"])
def test_a_printed_formula_that_breaks_needs_a_counterexample(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *_) = CLAIMS[name].printed
    denied = f"[[every {first.over}: not ({first.conclusion})]]"
    monkeypatch.setattr(Claim, "__post_init__", lambda self: None)
    monkeypatch.setitem(CLAIMS, name, replace(CLAIMS[name], statement=denied))
    assert "the check and the printed formulas differ" in check_claim(name).failure


def test_a_formula_without_a_case_is_false() -> None:
    (vacuous, some, fine) = formulas(
        "[[every n: n > 9 implies n < 0]] [[some n: n > 9]] [[every n: n > 2 implies n == 3]]"
    )
    found = judged([vacuous, some, fine], {"n": ({"n": n} for n in range(4))})
    assert [found[one].is_true(one) for one in (vacuous, some, fine)] == [False, False, True]
    assert found[fine].cases == 1
    refuses("the check returns no cases m: it has n", judged, formulas("[[every m: m > 0]]"), {"n": []})


@pytest.mark.parametrize(
    ("printed", "repaired", "kept"),
    [
        ("every n: n < 3", "every n: n <= 3", True),
        ("every n: n < 3", "every n: n > 0 implies n < 3", True),
        ("every n: n < 3", "every other_n: n < 3", True),
        ("every n: n < 3", "every n: n >= 3", False),
        ("every n: n < 3", "some n: n < 3", False),
        ("every n: n < 3", "every n: n < 3", False),
        ("every n: n < 3", "every n: 2 * n < 4", False),
    ],
)
def test_what_a_repair_keeps(printed: str, repaired: str, kept: bool) -> None:
    one, other = formulas(f"[[{printed}]] [[{repaired}]]") if printed != repaired else formulas(f"[[{printed}]]") * 2
    assert keeps_the_conclusion(one, other) == kept


def test_a_formula_is_printed_in_words_and_typeset() -> None:
    text = "So [[every factor: rho <= 0 implies p_acc ** 2 != abs(best_rate - 1 / 2)]]. [[some n: n in [1, 'A']]]"
    assert in_plain(text) == (
        "So for every factor, rho <= 0 implies p_acc ** 2 != abs(best_rate - 1 / 2). For some n, n in [1, 'A']"
    )
    assert in_latex(text) == (
        r"So for every factor, if $\rho \le 0$ then $p_{\text{acc}}^{2} \ne |\text{best rate} - (1 / 2)|$. "
        r"For some n, $n \in (1, \text{A})$"
    )


NUMBER = re.compile(r"(?<![\w.^_{/+*=(-])\d+(?:\.\d+)?(?![\w^/)]|\.\d)")
PLACES = re.compile(
    r"\$[^$]*\$|\{[^{}]*\}|"
    r"(?:Eq\.|Propositions?|Tables?|Algorithm|meanings?|temperature|Lines?) \(?\d+\)?(?:(?:,| and| to) \(?\d+\)?)*"
)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_sentence_has_formulas_and_no_number_of_its_own(name: str) -> None:
    """Numbers above 2 in what is said to be true are computed; 0, 1 and 2 belong to its terms."""
    one = CLAIMS[name]
    assert one.printed or one.repaired
    assert one.repaired or one.corrected is None
    words = PLACES.sub("", outside(one.corrected or ""))
    assert not [number for number in NUMBER.findall(words) if number not in ("0", "1", "2")]


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.name)
def test_what_to_do_differently_has_numbers_of_the_claims(paper: Paper) -> None:
    numbers = {name: one.numbers for name, one in CLAIMS.items()}
    assert len(re.findall("^- ", filled(paper.practice, numbers), re.M)) >= 2
    fields = re.findall(r"\{(?P<claim>[A-Z]-[^\[]+)\[", paper.practice)
    assert fields
    assert all(CLAIMS[name].paper is paper for name in fields)


def test_a_claim_that_holds_has_a_proof_or_a_second_check() -> None:
    keystones = (ROOT / "docs" / "keystones.md").read_text(encoding="utf-8")
    for name, one in CLAIMS.items():
        if name not in SECOND:
            place, _, anchor = (one.proof or "").partition("#")
            assert place in ("statement", "evidence", "keystones"), name
            assert place != "keystones" or f"({anchor})=\n" in keystones, name
            assert place != "statement" or re.search("[Pp]roof|[Pp]roved", one.statement), name
            assert place != "evidence" or re.search("proof|derivation|inspection|argument", one.method), name


def test_a_check_that_does_not_end_fails_after_the_same_step() -> None:
    with at_most(100) as steps, pytest.raises(ArithmeticError, match="does not end within 100 steps"):
        every(itertools.count(), lambda n: True)
    assert steps.taken == 101
    with at_most(10), pytest.raises(ArithmeticError, match="10 steps"):
        runs(lambda pick: tuple(pick((Fraction(1, 2), Fraction(1, 2))) for _ in range(9)))
    every(range(10**4), lambda n: True)  # outside of a check nothing is counted


def test_every_keystone_names_tests_that_exist() -> None:
    keystones = (ROOT / "docs" / "keystones.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", keystones, flags=re.M)[1:]
    assert len(sections) >= 12
    for words in sections:
        tests = re.findall(r"`tests/(\S+?\.py)::(\w+)(?:\[(\S+)\])?`", words)
        assert tests, words[:40]
        for file, name, parameter in tests:
            assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), (file, name)
            assert not parameter or parameter in CLAIMS, parameter


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        yield value
        return
    for inner in value:
        yield from leaves(inner)


def test_the_papers_keep_their_claims() -> None:
    counts = {paper.name: sum(one.paper is paper for one in CLAIMS.values()) for paper in papers()}
    assert counts == {"Goose": 30, "SALF & TALF": 14, "OPT-Tree": 13, "Delayed trees": 39, "GTO": 16, "Replay": 5}


def test_claims_are_shown_in_the_order_of_their_texts() -> None:
    tables = {key for file in ROOT.glob("proofs_check/*/claims.toml") for key in tomllib.loads(file.read_text())}
    assert in_order(CLAIMS)[:3] == ["G-EEXT", "G-P1-LB", "G-P1-TIGHT"]
    assert set(in_order(CLAIMS)) == tables - {"paper"}


def test_second_checks_are_of_claims_and_written_apart() -> None:
    assert set(SECOND) <= set(CLAIMS)
    for name, confirm in SECOND.items():
        assert confirm is not CLAIMS[name].check


def test_a_second_check_that_disagrees_fails_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def disagree(case: Case) -> None:
        raise AssertionError(f"a tree of {case['drafted']} nodes is not what I find")

    monkeypatch.setitem(SECOND, "O-SIZE", disagree)
    with pytest.raises(AssertionError, match="not what I find"):
        decide("O-SIZE")
    assert check_claim("O-SIZE").status == "failed"
    assert CliRunner().invoke(app, ["check", "O-SIZE"]).exit_code == 1
    assert "AssertionError: a tree of" in claims_page([check_claim("O-SIZE")])


def test_a_second_check_reads_the_counterexample_that_it_is_given() -> None:
    case: Any = CLAIMS["O-EA"].check(1).counterexample
    with pytest.raises(AssertionError):
        SECOND["O-EA"]({**case, "any": {**case["any"], "better_accepted": Fraction(1, 2)}})


def test_the_verdict_follows_from_the_counterexample_and_from_what_is_kept() -> None:
    assert Finding().status == "holds"
    assert Finding(counterexample={"n": 1}).status == "false"
    assert Finding(counterexample={"n": 1}, kept=1).status == "corrected"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"second": None}, "`second` or `proof` must be given"),
        ({"weight": "sleep"}, "unknown weight of X-1 'sleep': did you mean slip?"),
        ({"corrected": "[[every n: n > 0]]"}, "`terms` must have one entry for each name in its formulas: see n"),
        ({"terms": {"n": "a number"}}, "`terms` must have one entry for each name in its formulas: see n"),
        ({"corrected": "[[n > 0]]"}, r"a formula must be \[\[every CASE: ...\]\]"),
        ({"corrected": "[[every n: n >]]"}, "a formula must be an expression"),
        ({"evidence": "{new} cases"}, "fields without a number recorded: new"),
        ({"numbers": {"new": 1}}, "numbers recorded without a field: new"),
        ({"evidence": "{new[0]} cases", "numbers": {"new": [1]}}, None),
    ],
)
def test_the_texts_of_a_claim_fit_its_status_and_numbers(changed: dict[str, Any], message: str | None) -> None:
    texts: dict[str, Any] = {
        "corrected": "so",
        "method": "by search",
        "evidence": "found",
        "second": "by hand",
    } | changed
    arguments: dict[str, Any] = {"source": "Paper, Section 1", "statement": "1 = 2", "weight": "slip"} | texts
    raised = pytest.raises(InputError, match=message) if message else nullcontext()
    with raised:
        Claim("X-1", papers()[0], CLAIMS["O-EA"].check, **arguments)


@pytest.mark.parametrize("numbers", [{}, {"count": 26, "most": 4, "least": 0}])
def test_a_check_finds_a_number_for_each_field(monkeypatch: pytest.MonkeyPatch, numbers: dict[str, int]) -> None:
    one = replace(
        CLAIMS["O-SIZE"], check=lambda effort: Finding(numbers, {"n": 1}, 1), statement="1", corrected="1", terms={}
    )
    monkeypatch.setitem(CLAIMS, "O-SIZE", one)
    monkeypatch.setitem(SECOND, "O-SIZE", lambda finding: None)
    refuses("numbers found without a field: least|fields without a number found: count", decide, "O-SIZE")


def test_fields_show_fractions_exactly_or_in_decimals() -> None:
    assert filled("{a}, {b[1]:.3f}, {c:,}, {{k}}", {"a": Fraction(1, 3), "b": [0, Fraction(2, 3)], "c": 1234}) == (
        "1/3, 0.667, 1,234, {k}"
    )


def test_a_check_that_does_not_come_out_finds_nothing() -> None:
    with pytest.raises(LookupError):
        smallest(range(3), lambda case: case > 5)
    with pytest.raises(ArithmeticError, match="fails on 2"):
        every(range(3), lambda case: case < 2)


def test_a_claim_is_registered_once_and_has_texts() -> None:
    refuses("already", claim("O-SIZE"), CLAIMS["O-SIZE"].check)
    refuses("already", second("O-SIZE"), SECOND["O-SIZE"])
    check = CLAIMS["O-SIZE"].check
    refuses("claims.toml must have a table for claim O-NEW", claim("O-NEW"), check)


TEXTS = """
[paper]
name = "Ours"
title = "A paper of ours"
notes = "As printed."

[X-1]
source = "Ours, Section 1"
statement = "[[every pair: one + other == total]]"
proof = "evidence"
terms.pair = "two numbers"
terms.one = "one of them"
terms.other = "the other"
terms.total = "their sum"
method = "addition"
evidence = "{sum} was found."
numbers.sum = 2
"""
CHECK = """
from proofs_check.claims import Finding, claim

@claim("X-1")
def check(effort):
    return Finding({"sum": 1 + 1}, cases={"pair": [{"one": 1, "other": 1, "total": 2}]})
"""


FILES = {
    "ours/__init__.py": "",
    "ours/claims.toml": TEXTS,
    "ours/checks.py": CHECK,
    "ours-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: ours\nVersion: 1\n",
    "ours-1.dist-info/entry_points.txt": "[spectheory.claims]\nours = ours.checks\n",
}
"""A distribution whose entry point names the module ours.checks."""


def run_with_entry_point(folder: Path, change: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`spectheory check x` where the distribution is installed with these changes."""
    for name, text in {**FILES, **change}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    code = "from spectheory.cli import app; app(['check', 'x'])"
    paths = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def test_other_packages_bring_claims(tmp_path: Path) -> None:
    result = run_with_entry_point(tmp_path, {})
    assert result.returncode == 0, result.stderr
    assert "X-1 holds" in result.stdout
    assert "2 was found." in result.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"ours/checks.py": "import nothing_of_that_name"},
            "ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        ({"ours/claims.toml": TEXTS.replace("[X-1]", "[X-2]")}, "must have a table for claim X-1"),
        (
            {"ours/claims.toml": TEXTS.replace("evidence", "evidense")},
            "unknown key of X-1 'evidense': did you mean evidence?",
        ),
        ({"ours/claims.toml": TEXTS.replace('method = "addition"', "")}, "the table of X-1 must have method"),
        ({"ours/claims.toml": TEXTS.replace("[paper]", "[papers]")}, "must have a table [paper]"),
    ],
)
def test_an_entry_point_that_does_not_load_is_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    result = run_with_entry_point(tmp_path, change)
    assert result.returncode == 2
    assert "entry point ours = ours.checks of spectheory.claims does not load" in result.stderr
    assert message in result.stderr


def test_a_table_without_a_check_is_refused(tmp_path: Path) -> None:
    two = TEXTS + TEXTS[TEXTS.index("[X-1]") :].replace("X-1", "X-2")
    result = run_with_entry_point(tmp_path, {"ours/claims.toml": two})
    assert result.returncode == 2
    assert "has a table for X-2, which has no check" in result.stderr


def test_a_reading_of_what_a_paper_leans_on_says_so() -> None:
    assert {"D-ROOTS", "D-NSS"} <= {name for name, one in CLAIMS.items() if not one.stated}
    assert f"({LEANED_ON})" in claims_markdown([check_claim("D-NSS")])
    (shown,) = json.loads(CliRunner().invoke(app, ["check", "D-NSS", "--json"]).stdout)
    assert LEANED_ON in shown["source"]


def test_claims_that_are_leaned_on_are_counted_apart() -> None:
    assert leaned_on(["O-EA"], ["corrected"]) == ""
    assert leaned_on(["O-EA", "D-NSS"], ["corrected", "false"]) == f"1 of them {LEANED_ON}: 1 false"


def test_pages_have_the_rule_the_texts_and_the_counterexample() -> None:
    found = [check_claim("O-EA"), check_claim("S-T1-B")]
    markdown = claims_markdown(found)
    for words in (RULE, "# SALF & TALF\n", "### O-EA\n\n**corrected**", AGAIN + "the sum over", "**What is true.**"):
        assert words in markdown
    assert "\nnot_to_be_weakened:\n  - tokens: 2\n    batch: 2\n" in markdown
    assert RULE in claims_page(found)


def test_many_claims_have_one_line_each_and_few_their_evidence() -> None:
    names = ["O-EA", "O-SIZE", "O-TABLES", "O-LAYER"]
    many = CliRunner().invoke(app, ["check", *names], env={"COLUMNS": "80"}).stdout
    assert sum(line.startswith("O-") for line in many.splitlines()) == len(names)
    assert len(many.splitlines()) < 2 * len(names)
    few = CliRunner().invoke(app, ["check", "O-LAYER"], env={"COLUMNS": "80"}).stdout
    for words in ("claim: ", "what is true: ", "evidence: ", "Second check"):
        assert words in few


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
    refuses("did you mean S-T1", named, "s-t11", known)


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


def test_the_rate_of_an_exclusive_branch_is_its_own_or_given_that_the_spine_is_wrong() -> None:
    tree, s, t = walks.chains((1,), 1), Fraction(1, 3), Fraction(1, 4)
    assert walks.exclusive(tree, s, t) == 1 + s + t == Fraction(19, 12)
    assert walks.exclusive_given_failure(tree, s, t) == 1 + s + (1 - s) * t == walks.committed(tree, s, t)
    assert walks.exclusive(tree, Fraction(2, 3), Fraction(1, 2)) is None


def test_numbers_are_spelled_without_loss() -> None:
    assert plain({"p": (Fraction(1, 3), 2), (1, 2): {Fraction(1)}}) == {"p": ["1/3", 2], "[1, 2]": ["1"]}
    assert spelled({"a": [Fraction(1, 3), [1, 0]], "": None}) == "a: (1/3, (1, 0)), root: none"
    assert paragraphs("One\ntwo.\n\n    x = 1\n    y = 2") == ["One two.", "    x = 1\n    y = 2"]
