"""Figures of collected results: ratios with intervals, rows, tables and plots.

The coverage of the intervals is a binomial test with an error level of 1e-6; every seed is fixed.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binom

import simulate
from simulate import Collected, Figure, Stop, Task, TaskResult
from spectheory.core.ratios import ratio_half_width
from tests.refusals import refuses
from tests.simulate.counted import TASKS, Shifted, noisy


@pytest.fixture(scope="module")
def twelve() -> Collected:
    return simulate.collect(TASKS, stop=Stop(blocks=12))


def test_figures_are_ratios_of_sums_with_the_intervals_of_the_house(twelve: Collected) -> None:
    result = twelve[TASKS[1]]
    above, below = (np.array([part.totals[name] for part in result.run], float) for name in ("sum", "trials"))
    found = result.estimate()
    assert found.value == math.fsum(above) / math.fsum(below)
    assert found.half_width == pytest.approx(ratio_half_width(above, below), rel=1e-12)
    share = twelve[TASKS[0]].estimate("hit rate")
    hits, trials = (twelve[TASKS[0]].total.totals[name] for name in ("hits", "trials"))
    limits = beta.ppf([0.025, 0.975], [hits, hits + 1], [trials - hits + 1, trials - hits])
    assert (share.low, share.high) == pytest.approx(tuple(limits), rel=1e-12)
    assert limits[0] < 0.3 < limits[1]


def test_intervals_cover_the_true_value_as_often_as_they_say() -> None:
    """500 tasks of 8 blocks, a fixed number; two-sided binomial test of the level 95%, error level 1e-6."""
    tasks = [Task(Shifted(2.0), seed=seed, figures=(Figure("value", "value"),)) for seed in range(500)]
    found = [result.estimate() for result in simulate.collect(tasks, stop=Stop(blocks=8)).results]
    covered = sum(abs(estimate.value - 2.0) <= (estimate.half_width or 0) for estimate in found)
    assert binom.ppf(5e-7, 500, 0.95) <= covered <= binom.isf(5e-7, 500, 0.95)


def test_a_share_has_an_interval_where_all_trials_agree() -> None:
    """Clopper and Pearson's lower limit for n of n trials is the n-th root of 0.025."""
    task = Task(noisy, figures=(Figure("all", "trials", "trials", share=True),))
    found = simulate.collect(task, stop=Stop(blocks=1))[task]
    trials, estimate = found.total.totals["trials"], found.estimate()
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low == pytest.approx(0.025 ** (1 / trials))


def test_rows_and_table_show_every_figure(twelve: Collected) -> None:
    rows = twelve.to_rows()
    assert [row["task"] for row in rows] == ["noisy scale=1.0", "noisy scale=3.0", "Shifted by=2.0"]
    assert json.loads(json.dumps(rows)) == rows
    found = twelve[TASKS[1]].estimate()
    assert (rows[1]["scale"], rows[1]["blocks"], rows[1]["mean"]) == (3.0, 12, found.value)
    assert (rows[1]["mean_low"], rows[1]["mean_high"]) == (found.low, found.high)
    assert rows[0]["total_trials"] == twelve[TASKS[0]].total.totals["trials"]
    table = twelve.table()
    assert table.header == ("task", "hit rate", "mean", "value", "blocks")
    assert [row[1:] == ("-", "-") for row in table.rows] == [False, False, False]
    assert [row[-1] for row in table.rows] == ["12"] * 3


def test_the_plot_shows_tasks_or_a_line_along_a_setting() -> None:
    tasks = [
        Task(noisy, {"scale": scale, "seconds": seconds}, figures=(Figure("mean", "sum", "trials", "units"),))
        for scale in (1.0, 2.0)
        for seconds in (0.0, 1e-4)
    ]
    found = simulate.collect(tasks, stop=Stop(blocks=3))
    rows, lines = simulate.plot(found), simulate.plot(found, "mean", along="scale", by="seconds")
    assert rows.startswith("<svg ")
    assert all(task.name in rows for task in tasks)
    assert "seconds 0.0001" in lines
    assert "mean, units" in lines
    for arguments, said in (
        ({"along": "width"}, "has no number or text as setting 'width', it has: scale, seconds"),
        ({"by": "scale"}, "by='scale' needs along"),
        ({"figure": "tau"}, "has no figure 'tau', it has mean"),
    ):
        refuses(said, simulate.plot, found, **arguments)


def test_a_result_without_blocks_has_no_figures(tmp_path: Path) -> None:
    empty = TaskResult.of_task(TASKS[1], {})
    assert math.isnan(empty.estimate().value)
    assert (empty.counted, empty.estimate().half_width) == (0, None)
