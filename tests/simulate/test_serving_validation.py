"""The simulator on published serving curves."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from benchmarks.serving_validation import AIM, FAMILIES, curves, document, fits, judged, main, median_error, rate_of


def test_published_curves_are_met_after_calibration_on_two_points() -> None:
    """EAGLE-3's speedups by batch size, and four other curves; `-m deep` judges all."""
    eagle3 = [curve for curve in curves(FAMILIES[:1]) if "eagle3" in curve.name]
    found = judged([*eagle3, *itertools.islice(curves(FAMILIES[1:2]), 4)])
    assert not any(one.reason for one in found)
    assert [list(one.errors) for one in found] == [[row.batch for row in one.rows[1:-1]] for one in found]
    assert [len(one.errors) for one in found] == [7, 1, 1, 1, 1]
    assert median_error(found) < AIM
    assert all(median_error([one]) < AIM for one in found)
    assert "eagle3-llama-3.1-8b" in document(found)


def test_curves_are_sorted_and_leave_out_what_does_not_fit() -> None:
    found = list(curves())
    assert {curve.family for curve in found} == set(FAMILIES)
    for curve in found:
        batches = [row.batch for row in curve.rows]
        assert batches == sorted(set(batches))
        assert all(map(fits, curve.rows[-1:]))
        assert not any(map(fits, curve.too_large[:1]))
    assert any(curve.too_large for curve in found)
    unjudged = judged(curve for curve in found if len(curve.rows) < 3)
    assert unjudged
    assert all("of its points fit into memory" in one.reason for one in unjudged)
    eagle = next(curve for curve in found if curve.rows and curve.rows[0].kind == "chain").rows[0]
    rate = rate_of(eagle)
    assert 1 + rate + rate**2 + rate**3 == pytest.approx(eagle.tau)


@pytest.mark.deep
def test_all_curves(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path / "serving.md")]) == 0
    assert "| all | 37 | 142 |" in (tmp_path / "serving.md").read_text(encoding="utf-8")
