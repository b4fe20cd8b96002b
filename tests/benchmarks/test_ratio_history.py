"""The gate on the speed of the calculators, with records that are made up. No time is measured here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.ratio_history import (
    FOLDER,
    LAST,
    TABLE,
    BenchmarkRatios,
    Regression,
    history,
    least,
    main,
    not_timed,
    ratios_of,
    records,
    regressions,
    table,
)
from spectheory import Provenance
from tests.refusals import refuses


def record(day: int, **ratios: float) -> BenchmarkRatios:
    stamp = Provenance("test", created=f"2026-01-{day:02}T00:00:00+00:00", settings={"commit": f"c{day}", "load": 0.5})
    return BenchmarkRatios(ratios, stamp)


def report(path: Path, **ratios: float) -> Path:
    rows = [{"name": name, "extra_info": {"ratio to loop": ratio, "tau": 2}} for name, ratio in ratios.items()]
    path.write_text(json.dumps({"benchmarks": [*rows, {"name": "start-up", "extra_info": {}}]}))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A history of three records of `a / loop`, with median 0.2, and two of `b / loop`, with median 4."""
    kept = tmp_path / "history"
    kept.mkdir()
    for day, ratios in (
        (1, {"a / loop": 0.2}),
        (2, {"a / loop": 0.9, "b / loop": 3}),
        (3, {"a / loop": 0.1, "b / loop": 5}),
    ):
        record(day, **ratios).save(kept / f"{day}.json")
    return kept


def test_a_report_gives_the_ratios_to_baselines_alone(tmp_path: Path) -> None:
    data = json.loads(report(tmp_path / "report.json", a=0.25).read_text())
    assert ratios_of(data) == {"a / loop": 0.25}
    refuses("the report is not a report of pytest-benchmark: write it with", ratios_of, {"machine_info": {}})


def test_of_several_runs_the_least_ratio_counts() -> None:
    assert least([{"a": 3, "b": 1}, {"a": 2}, {"a": 5, "b": 4}]) == {"a": 2, "b": 1}


def test_the_history_is_the_median_of_the_last_records(folder: Path) -> None:
    assert history(records(folder)) == {"a / loop": 0.2, "b / loop": 4}
    older = [record(day, a=100) for day in range(1, 5)]
    newer = [record(day, a=day) for day in range(10, 10 + LAST)]
    assert history([*older, *newer]) == {"a": 12}


def test_only_what_exceeds_the_factor_is_a_regression() -> None:
    old = {"a": 1.0, "b": 4.0}
    assert regressions({"a": 1.5, "b": 1, "new": 9}, old, factor=1.5) == []
    assert regressions({"a": 1.6, "b": 4}, old, factor=1.5) == [Regression("a", 1.6, 1.0)]
    refuses(r"factor must be at least 1, got 0\.9", regressions, {}, {}, factor=0.9)


@pytest.mark.parametrize(
    ("ratios", "factor", "status", "line"),
    [
        ({"a": 0.39, "b": 1}, "2", 0, "2 ratios, 0 more than 2 times the history, 0 not timed"),
        ({"a": 0.41, "b": 1}, "2", 1, "slower: a / loop: 0.41, in the history 0.2, 2.05 times"),
        ({"a": 0.41, "b": 1}, "3", 0, "2 ratios, 0 more than 3 times the history, 0 not timed"),
        ({"a": 0.1}, "2", 1, "not timed: b / loop"),
    ],
)
def test_the_gate_fails_if_one_got_slower_or_was_not_timed(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ratios: dict[str, float],
    factor: str,
    status: int,
    line: str,
) -> None:
    path = report(tmp_path / "report.json", **ratios)
    assert main([str(path), "--history", str(folder), "--factor", factor]) == status
    assert line in capsys.readouterr().out.splitlines()
    assert len(records(folder)) == 3


def test_one_fast_run_of_two_passes_the_gate(folder: Path, tmp_path: Path) -> None:
    busy, idle = report(tmp_path / "busy.json", a=9, b=3), report(tmp_path / "idle.json", a=0.3, b=90)
    assert main([str(busy), "--history", str(folder)]) == 1
    assert main([str(busy), str(idle), "--history", str(folder)]) == 0


def test_a_run_is_added_with_its_commit(folder: Path, tmp_path: Path) -> None:
    path = report(tmp_path / "report.json", a=0.2, b=4, c=7)
    assert main([str(path), "--history", str(folder), "--commit", "abc"]) == 0
    *_, last = records(folder)
    assert last.ratios == {"a / loop": 0.2, "b / loop": 4, "c / loop": 7}
    assert last.provenance.settings["commit"] == "abc"
    assert re.search(r"^\| c / loop \| +\| +\| +\| 7 \|$", (folder / TABLE).read_text(), re.MULTILINE)
    assert not_timed({"a / loop": 1}, last) == ["b / loop", "c / loop"]


@pytest.mark.parametrize("ratios", [{"a": 0.0}, {"a": float("inf")}, {}])
def test_ratios_that_cannot_be_are_refused(ratios: dict[str, float]) -> None:
    refuses("above 0 and finite|must not be empty", record, 1, **ratios)


def test_the_committed_history_is_read_and_its_table_is_up_to_date() -> None:
    kept = records()
    assert kept
    assert (FOLDER / TABLE).read_text() == table(kept), "run make history"
