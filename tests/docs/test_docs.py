"""The pages of verifiers and of the zoo are what the code says, certificates included."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from spectheory.certify.zoo import SPECIMENS, STEPS, Specimen
from tests.covering import covering

DOCS = Path(__file__).parents[2] / "docs"
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
