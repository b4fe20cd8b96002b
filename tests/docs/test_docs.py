"""The listed rules are lossless, the paper and its picture are what the code says, and the notebook runs."""

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

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOK = ROOT / "notebooks" / "budgets_and_acceptance.ipynb"
SOLVERS = [rule for solver in st.otlp.solvers() for rule in (solver, *solver.variants())]


@pytest.mark.parametrize("cases", [{"sizes": (2,), "cases": 1}, pytest.param({"cases": 60}, marks=pytest.mark.deep)])
@pytest.mark.parametrize("rule", [*SOLVERS, *st.verify.verifiers()], ids=repr)
def test_every_listed_rule_is_lossless(rule: Any, cases: dict[str, Any]) -> None:
    assert st.certify_verifier(rule, **cases).verdict.name == "LOSSLESS"


@pytest.mark.parametrize(
    ("module", "base", "others"),
    [
        (st.otlp, st.otlp.Solver, {st.otlp.ArgMax}),
        (st.verify, st.verify.Verifier, {st.verify.BottomUp, st.verify.Greedy, st.verify.TopDown}),
    ],
)
def test_every_rule_is_listed(module: Any, base: type, others: set[type]) -> None:
    public = {rule for _, rule in inspect.getmembers(module, inspect.isclass) if issubclass(rule, base)}
    listed = {type(rule) for rule in (*SOLVERS, *st.verify.verifiers())}
    assert {rule for rule in public if not inspect.isabstract(rule)} - listed == others & public


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
