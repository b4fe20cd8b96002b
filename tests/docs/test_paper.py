"""The paper cites what its bibliography has, and its figures are those of the pages."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import spectheory as st

ROOT = Path(__file__).parents[2]
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
WORDS = " ".join(PAPER.split())


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_citation_is_in_the_bibliography_and_is_used() -> None:
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    cited = re.findall(r"@(\w+)", PAPER.partition("\n---\n")[2])
    assert sorted(set(cited)) == sorted(entries)


@pytest.mark.parametrize(
    ("said", "name", "measured"),
    [
        ("a median error of 1.6% over 88 combinations", "results.md", "median error 1.6%, within 5% for 86 of 88"),
        ("within 5% for 86 of them", "results.md", "within 5% for 86 of 88 combinations"),
        (
            "a median error of 6.9% and was within 5% for 27 of 87",
            "results.md",
            "median error 6.9%, within 5% for 27 of 87",
        ),
        ("total variation up to 2/3", "gallery.md", "`Tree/SpecTree.py` at 0ff3ff71: LOSSY, total variation 2/3"),
        (
            "(ReDrafter's code, 4/5)",
            "gallery.md",
            "`recurrent_drafting/recurrent_drafting.py` at bd8586bb: LOSSY, total variation 4/5",
        ),
        ("588 published rows of 33 sources", "validation.md", "588 rows of 33 sources"),
    ],
)
def test_a_figure_of_the_paper_is_that_of_its_page(said: str, name: str, measured: str) -> None:
    assert said in WORDS
    assert measured in page(name)


def test_the_paper_counts_the_subjects_of_the_gallery_and_their_faults() -> None:
    rows = [line for line in page("gallery.md").splitlines() if line.startswith("| `") and " | LOSS" in line]
    lossy = [row for row in rows if "| LOSSY |" in row and "by design" not in row]
    faults = {row.partition("[below](#")[2].partition(")")[0] for row in lossy}
    assert f"{len(re.findall(r'^[|] `[^`]+`: ', page('gallery.md'), re.MULTILINE))} samplers" in WORDS
    assert "Twenty keep" in WORDS
    assert sum("| LOSSLESS |" in row for row in rows) == 20
    assert {6: "Six"}[len(faults)] + " faults were found that are not by design" in WORDS


def test_the_picture_is_drawn_from_the_record_and_the_results() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "generate_picture.py"))
    drawn, rates = script["PICTURE"].read_text(encoding="utf-8"), st.Acceptance.load(script["RATES"]).smoothed()
    tree = st.best_tree(rates, script["BUDGET"])
    reach = st.reach(tree, rates)
    assert f"tau {st.block_efficiency(tree, rates):.2f}" in drawn
    assert all(f"{100 * one:.0f}%" in drawn for one in reach[1:] if one >= script["NAMED"])
    assert f"{len(script['measured']())} measured decoders" in drawn, "run python docs/generate_picture.py"
