"""`spectheory check` and its report."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from proofs_check import CLAIMS
from proofs_check.checked import check_claim, leaned_on
from proofs_check.claims import (
    LEANED_ON,
    RULE,
    named,
)
from proofs_check.markdown import claims_markdown
from spectheory.cli import app
from tests.refusals import refuses

ROOT = Path(__file__).parents[2]


def test_claims_that_are_leaned_on_are_counted_apart() -> None:
    assert leaned_on(["O-EA"], ["corrected"]) == ""
    assert leaned_on(["O-EA", "D-NSS"], ["corrected", "false"]) == f"1 of them {LEANED_ON}: 1 false"


def test_the_report_has_the_verdicts_the_words_of_the_paper_and_the_counterexample(tmp_path: Path) -> None:
    found = [check_claim(name) for name in ("O-EA", "G-EEXT")]
    page = claims_markdown(found)
    assert "2 claims: 1 holds, 1 corrected, 0 false." in page
    for words in (*CLAIMS["O-EA"].quotes, "```text", "**How much.**" if CLAIMS["O-EA"].size else "### O-EA", RULE):
        assert words in page


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
