"""`spectheory check`, its report and docs/claims.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

from typer.testing import CliRunner

import proofs_check
from proofs_check import CLAIMS
from proofs_check.checked import AGAIN, check_claim, leaned_on
from proofs_check.claims import (
    LEANED_ON,
    RULE,
    in_order,
    named,
    papers,
)
from proofs_check.drawing import tree_drawings
from proofs_check.markdown import claims_markdown, head, introduction
from proofs_check.page import claims_page
from spectheory.cli import app
from tests.refusals import refuses

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "claims.md"


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
