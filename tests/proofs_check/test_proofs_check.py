"""Every claim's check comes out as its table in claims.toml records it, and is shown so by `spectheory check`.

Each claim is checked in one test of its own, so that the checks are shared out among parallel workers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proofs_check import CLAIMS, SECOND, Claim, Finding, decide
from proofs_check.checked import check_claim, claims_markdown, section
from proofs_check.claims import RULE, Case, claim, every, named, second, smallest
from proofs_check.plain import plain
from spectheory.cli import app
from tests.helpers import refuses

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", CLAIMS)
def test_a_check_comes_out_as_recorded(name: str) -> None:
    found = check_claim(name)
    assert found.finding is not None, found.failure
    assert f"### {name}\n\n**{found.status}" in section(found)
    assert plain(found.finding.numbers) == CLAIMS[name].numbers
    assert not [number for number in leaves(found.finding.counterexample) if isinstance(number, float)]
    json.dumps(found.to_json(), allow_nan=False)


FALSE_SENTENCES = {
    "S-A2-ENS": ("[[every state: G_and_Q == best_seen]]", "[[every state: G == best_seen]]"),
    "O-MU": ("gain > mu * speed)", "gain > mu)"),
    "G-P1-EXCL": ("accepted == b * p_t >= Q", "accepted == b * p_t <= Q"),
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


@pytest.mark.parametrize("name", ["D-RHO-VALID", "S-T1-W", "R-REJECTED"])
def test_a_printed_formula_that_breaks_needs_a_counterexample(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = CLAIMS[name].printed[-1]
    denied = f"[[every {first.over}: not ({first.conclusion})]]"
    monkeypatch.setattr(Claim, "__post_init__", lambda self: None)
    monkeypatch.setitem(CLAIMS, name, replace(CLAIMS[name], statement=denied))
    assert "the check and the printed formulas differ" in check_claim(name).failure


def test_a_claim_that_holds_has_a_proof_or_a_second_check() -> None:
    keystones = (ROOT / "docs" / "keystones.md").read_text(encoding="utf-8")
    for name, one in CLAIMS.items():
        if name not in SECOND:
            place, _, anchor = (one.proof or "").partition("#")
            assert place in ("statement", "evidence", "keystones"), name
            assert place != "keystones" or f"({anchor})=\n" in keystones, name
            assert place != "statement" or re.search("[Pp]roof|[Pp]roved", one.statement), name
            assert place != "evidence" or re.search("proof|derivation|inspection|argument", one.method), name


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


def test_a_second_check_that_disagrees_fails_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    def disagree(case: Case) -> None:
        raise AssertionError(f"{len(case)} numbers are not what I find")

    monkeypatch.setitem(SECOND, "O-TABLES", disagree)
    with pytest.raises(AssertionError, match="not what I find"):
        decide("O-TABLES")
    assert check_claim("O-TABLES").status == "failed"
    assert CliRunner().invoke(app, ["check", "O-TABLES"]).exit_code == 1
    assert "AssertionError: 2 numbers" in check_claim("O-TABLES").failure


def test_a_second_check_reads_the_counterexample_that_it_is_given() -> None:
    case: Any = CLAIMS["O-EA"].check(1).counterexample
    with pytest.raises(AssertionError):
        SECOND["O-EA"]({**case, "any": {**case["any"], "better_accepted": Fraction(1, 2)}})


def test_the_verdict_follows_from_the_counterexample_and_from_what_is_kept() -> None:
    assert Finding().status == "holds"
    assert Finding(counterexample={"n": 1}).status == "false"
    assert Finding(counterexample={"n": 1}, kept=1).status == "corrected"


def test_a_check_that_does_not_come_out_finds_nothing() -> None:
    with pytest.raises(LookupError):
        smallest(range(3), lambda case: case > 5)
    with pytest.raises(ArithmeticError, match="fails on 2"):
        every(range(3), lambda case: case < 2)


def test_a_claim_is_registered_once_and_has_texts() -> None:
    refuses("already", claim("O-TABLES"), CLAIMS["O-TABLES"].check)
    refuses("already", second("O-TABLES"), SECOND["O-TABLES"])
    check = CLAIMS["O-TABLES"].check
    refuses("claims.toml must have a table for claim O-NEW", claim("O-NEW"), check)


def test_the_report_has_the_verdicts_the_words_of_the_paper_and_the_counterexample() -> None:
    page = claims_markdown([check_claim(name) for name in ("O-EA", "R-REJECTED")])
    assert "2 claims: 1 holds, 1 corrected, 0 false." in page
    for words in (*CLAIMS["O-EA"].quotes.values(), "```text", "### O-EA", RULE):
        assert words in page


def test_many_claims_have_one_line_each_and_few_their_evidence() -> None:
    names = ["O-EA", "G-TABLES", "O-TABLES", "T-TABLES"]
    many = CliRunner().invoke(app, ["check", *names], env={"COLUMNS": "80"}).stdout
    assert [line.split()[0] for line in many.splitlines()[:-1]] == names
    few = CliRunner().invoke(app, ["check", "O-TABLES"], env={"COLUMNS": "80"}).stdout
    for words in ("claim: ", "what is true: ", "evidence: ", "Second check"):
        assert words in few


def test_the_command_prints_json_without_rounding() -> None:
    result = CliRunner().invoke(app, ["check", "o-ea", "--json"])
    assert result.exit_code == 0
    (found,) = json.loads(result.stdout)
    assert (found["id"], found["status"]) == ("O-EA", "corrected")
    assert found["counterexample"]["greedy"]["draft"] == ["3/5", "2/5"]


def test_a_claim_is_named_by_its_id_or_by_how_that_begins() -> None:
    known = ["S-T1", "S-T1-W", "O-SUB", "O-STOP"]
    assert named("s-t1", known) == ["S-T1"]
    assert named("O", known) == ["O-SUB", "O-STOP"]
    refuses("did you mean S-T1", named, "s-t11", known)
    result = CliRunner().invoke(app, ["check", "O-SUV"])
    assert result.exit_code == 2
    assert "did you mean O-SUB" in result.stderr
