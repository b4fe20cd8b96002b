"""`spectheory check` and its report."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from proofs_check import CLAIMS
from proofs_check.checked import check_claim, claims_markdown
from proofs_check.claims import RULE, named
from spectheory.cli import app
from tests.refusals import refuses


def test_the_report_has_the_verdicts_the_words_of_the_paper_and_the_counterexample() -> None:
    page = claims_markdown([check_claim(name) for name in ("O-EA", "R-REJECTED")])
    assert "2 claims: 1 holds, 1 corrected, 0 false." in page
    for words in (*CLAIMS["O-EA"].quotes, "```text", "### O-EA", RULE):
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
