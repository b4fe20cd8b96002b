"""The pages of verifiers and of the zoo, the paper and its picture are what the code says; the notebook runs."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from spectheory.certify.zoo import SPECIMENS, STEPS, Specimen
from tests.enumeration import covering

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOK = ROOT / "notebooks" / "budgets_and_acceptance.ipynb"
PAGE = (DOCS / "verifiers.md").read_text(encoding="utf-8")
GENERATE = runpy.run_path(str(DOCS / "generate_verifiers.py"))
RULES = GENERATE["rules"]()
DRAFTS = {name: int(drafts.replace(",", "")) for name, drafts in re.findall(r"\| `(.*?)` .* ([\d,]+) drafts \|", PAGE)}
CERTIFIED = covering(
    [rule for rule in RULES if DRAFTS[repr(rule)] < 2_000],
    lambda rule: (*rule.rules, getattr(rule, "takes", "one node")),
)
"""Rules with few drafts, for each draw rule and each kind of draft. Deep, all of them."""


@pytest.mark.usefixtures("factors_found_once")
@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=[] if rule in CERTIFIED else [pytest.mark.deep]) for rule in RULES],
    ids=repr,
)
def test_the_certificate_of_a_rule_is_reached_again(rule: Any) -> None:
    row = GENERATE["row"](rule, GENERATE["CASES"])
    assert row in PAGE.splitlines(), "run python docs/generate_verifiers.py"
    assert "LOSSLESS" in row


def test_the_page_of_verifiers_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the certificates, which the test above computes."""
    known = {row.split(" | ")[0]: row for row in PAGE.splitlines() if row.startswith("| `")}
    monkeypatch.setitem(GENERATE["verifiers"].__globals__, "row", lambda rule, cases: known[f"| `{rule!r}`"])
    assert GENERATE["verifiers"](PAGE).splitlines() == PAGE.splitlines(), "run python docs/generate_verifiers.py"
    not_listed = {st.otlp.ArgMax, st.verify.BottomUp, st.verify.Greedy, st.verify.TopDown}
    for module, base in ((st.otlp, st.otlp.Solver), (st.verify, st.verify.Verifier)):
        for name, rule in inspect.getmembers(module, inspect.isclass):
            if issubclass(rule, base) and not inspect.isabstract(rule) and rule not in not_listed:
                assert f"### {name}\n" in PAGE, name


def test_the_page_of_the_zoo_names_every_specimen_with_its_verdict() -> None:
    rows = (DOCS / "zoo.md").read_text(encoding="utf-8").splitlines()
    for specimen in (*SPECIMENS, *STEPS):
        (row,) = [row for row in rows if row.startswith(f"| {specimen.name} |")]
        right = "| LOSSLESS |" if isinstance(specimen, Specimen) else "| WITHIN |"
        assert (right if specimen.is_lossless else "| LOSSY |") in row


def test_every_citation_is_in_the_bibliography_and_is_used() -> None:
    paper, bibliography = (ROOT / "paper" / name for name in ("paper.md", "paper.bib"))
    entries = re.findall(r"^@\w+\{(\w+),", bibliography.read_text(encoding="utf-8"), re.MULTILINE)
    cited = re.findall(r"@(\w+)", paper.read_text(encoding="utf-8").partition("\n---\n")[2])
    assert sorted(set(cited)) == sorted(entries)


def test_the_picture_is_drawn_from_the_record_and_the_results() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "generate_picture.py"))
    drawn, rates = script["PICTURE"].read_text(encoding="utf-8"), st.Acceptance.load(script["RATES"]).smoothed()
    tree = st.best_tree(rates, script["BUDGET"])
    reach = st.reach(tree, rates)
    assert f"tau {st.block_efficiency(tree, rates):.2f}" in drawn
    assert all(f"{100 * one:.0f}%" in drawn for one in reach[1:] if one >= script["NAMED"])
    points = sum(map(len, script["MEASURED"].values()))
    assert f"{points} measured decoders" in drawn, "run python docs/generate_picture.py"


def test_the_notebook_runs() -> None:
    """In a process of its own: the notebook tools emit warnings, and a warning is an error in our tests."""
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-o", "filterwarnings=default"]
    command = [sys.executable, "-m", "pytest", "--nbmake", *quiet, NOTEBOOK.name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=NOTEBOOK.parent, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_notebook_is_kept_without_outputs() -> None:
    code = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
