"""The page of verifiers is what the code says, certificates included."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import spectheory as st
from spectheory.certify.zoo import SPECIMENS, STEPS, Specimen

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_verifiers_is_up_to_date() -> None:
    generate = runpy.run_path(str(DOCS / "generate_verifiers.py"))
    page = generate["page"]()
    assert page == (DOCS / "verifiers.md").read_text(encoding="utf-8"), "run python docs/generate_verifiers.py"
    assert "LOSSY" not in page
    assert "UNDECIDED" not in page


def test_no_rule_is_missing_from_it() -> None:
    page = (DOCS / "verifiers.md").read_text(encoding="utf-8")
    not_listed = {st.otlp.ArgMax, st.verify.Greedy, st.verify.TopDown}
    for module, base in ((st.otlp, st.otlp.Solver), (st.verify, st.verify.Verifier)):
        for name, rule in inspect.getmembers(module, inspect.isclass):
            if issubclass(rule, base) and not inspect.isabstract(rule) and rule not in not_listed:
                assert f"### {name}\n" in page, name


def test_the_page_of_the_zoo_names_every_specimen_with_its_verdict() -> None:
    rows = (DOCS / "zoo.md").read_text(encoding="utf-8").splitlines()
    for specimen in (*SPECIMENS, *STEPS):
        (row,) = [row for row in rows if row.startswith(f"| {specimen.name} |")]
        right = "| LOSSLESS |" if isinstance(specimen, Specimen) else "| WITHIN |"
        assert (right if specimen.is_lossless else "| LOSSY |") in row
