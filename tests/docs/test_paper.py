"""The paper cites what its bibliography has, and its picture is drawn from the record and the results."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import spectheory as st

ROOT = Path(__file__).parents[2]


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
