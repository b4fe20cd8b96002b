"""The benchmark of the papers' losses: its rows fit each other, and its page says what the comparisons hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.training import page, running
from benchmarks.training.rows import ROWS, SHIPPED
from spectheory import DraftComparison
from spectheory.replay.reliability import BINS, RANKS
from spectheory.results.draft_run import DraftRun

START, OTHER = ROWS[:2]
NAMES = [SHIPPED, "EAGLE-1 start", "EAGLE-1", "HASS"]


def run(name: str, place: int, tau: float) -> DraftRun:
    reliability = np.zeros((2, RANKS, BINS, 3))
    reliability[:, :4, 5] = 10, 5.5, 4
    cycles = np.array([10.0, 20, 30])
    emitted = cycles * (tau + np.array([0, 0.015, -0.01]))
    accepted = np.array([60 - 30 * (tau - 1), 0, 30 * (tau - 1)])
    return DraftRun(name, f"run{place}", f"{name}-{place}", emitted, cycles, emitted, accepted, reliability)


def comparison(factor: float) -> DraftComparison:
    taus = zip(NAMES, (2.0, 2.1, 2.2, 2.4), strict=True)
    runs = [run(name, seed, factor * tau) for name, tau in taus for seed in range(1 if name == SHIPPED else 2)]
    return DraftComparison("a tree", "Greedy", SHIPPED, ("a", "b", "c"), np.array([10, 20, 30]), tuple(runs))


def test_rows_start_from_rows_before_them_and_are_compared_with_rows_of_the_table() -> None:
    seen = {SHIPPED}
    for row in ROWS:
        assert row.start is None or row.start in seen
        assert row.against is None or row.against in {one.name for one in ROWS}
        seen.add(row.name)
    assert len({row.folder for row in ROWS}) == len(ROWS)


def test_the_page_has_each_row_beside_the_draft_and_beside_its_own_baseline() -> None:
    found = page.document({0.0: comparison(1.0), 1.0: comparison(0.5)}, dict.fromkeys(NAMES[1:], 480.0))
    table = {line.split(" | ")[0][2:]: line.split(" | ") for line in reversed(found.splitlines()) if line[:2] == "| "}
    assert table["EAGLE-1"][1:3] == ["480", "22,400"]
    assert table["EAGLE-1"][3].startswith("2.200 ± ")
    assert table["EAGLE-1"][4].startswith("+10.0% ± ")
    assert table[SHIPPED][4] == ""
    assert "2 seeds of training. Intervals of 95%" in found
    assert "**Not trained yet:** draft trained on; CE, 3 passes; " in found
    (hass,) = [line for line in found.splitlines() if line.startswith("| HASS | EAGLE-1 | ")]
    assert hass.split(" | ")[2].startswith("+9.09% ± ")
    assert hass.split(" | ")[4].startswith("+9.09% ± ")
    assert "+3.9 to +8.1% over EAGLE-2's loss" in hass


def test_only_rows_with_all_seeds_are_compared(tmp_path: Path) -> None:
    for seed in range(2):
        folder = running.run_folder(tmp_path, START, seed)
        folder.mkdir(parents=True)
        (folder / running.RECORD).write_text(json.dumps({"cpu_seconds": 10 + seed}))
    (running.run_folder(tmp_path, OTHER, 0)).mkdir()
    found = running.finished(tmp_path, range(2))
    assert list(found) == [START.name]
    assert page.costs(found) == {START.name: pytest.approx(10.5)}
    hass = next(row for row in ROWS if row.name == "HASS")
    assert running._can_start(tmp_path, hass, 1)
    assert not running._can_start(tmp_path, hass, 2)
