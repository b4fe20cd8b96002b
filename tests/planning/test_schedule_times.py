"""Schedules with both measured and computed times, and the text and figures of their page."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from spectheory.planning.planner import schedule
from spectheory.planning.schedule_record import Schedule
from spectheory.report.schedules import schedule_page, schedule_rows, speedup_figure
from tests.cli.test_cli_schedule import measured_record, rates_file, run_plan
from tests.planning.test_schedule import RATES, latency_at

__all__ = ["rates_file"]
PAIR: dict[str, Any] = {"gpu": "h100_sxm", "target": "llama-3.1-8b", "draft": "llama-3.2-1b"}


def where(folder: Path, batch: int, gpu: str = "h100_sxm") -> Path:
    return folder / gpu / PAIR["target"] / PAIR["draft"] / f"batch-{batch}.json"


def mixed(batch: int) -> st.Latency:
    """Computed times for batch 3 and measured times for batch 4. The times are equal."""
    latency = latency_at(1)
    return latency if batch == 4 else replace(latency, computed=True)


def test_a_row_has_one_source_of_times() -> None:
    planned = schedule(RATES, mixed, [3, 4], context=512, max_budget=8)
    assert [(first, last, computed) for first, last, _, computed in planned.answers()] == [(3, 3, True), (4, 4, False)]
    assert [tree.budget for _, _, tree in planned.ranges()] == [planned.answers()[0][2].budget], "one answer"
    table = schedule_rows(planned)
    assert [row[0] for row in table.rows] == ["3", "4 *"]
    assert table.note.endswith("Times are measured (*) at batch 4, computed at batch 3.")
    alone = schedule(RATES, mixed, [4], context=512, max_budget=8)
    assert [row[0] for row in schedule_rows(alone).rows] == ["4"]


def test_stamps_are_merged_to_what_they_agree_on() -> None:
    one = st.Provenance("a", "2026-01-01", 1, "x", {"numpy": "1"}, target="t", batch=1, settings={"a": 1, "b": 2})
    two = st.Provenance("b", "2026-01-02", 2, "x", {"scipy": "2"}, target="t", batch=2, settings={"a": 1, "b": 3})
    expected = st.Provenance(
        "a and b", "2026-01-02", None, "x", {"numpy": "1", "scipy": "2"}, target="t", settings={"a": 1}
    )
    assert st.Provenance.merged([one, two, one]) == expected
    assert st.Provenance.merged([one]) == one


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (st.Latency.roofline(**PAIR, batch=2), "batch-2.json holds computed times, not measured ones: measure with"),
        (st.Latency.constant(draft_seconds=0.1), "batch-2.json holds computed times, not measured ones: measure with"),
        (
            {"target": "llama-3.1-70b"},
            "batch-2.json was measured for target llama-3.1-70b, not llama-3.1-8b: move the file",
        ),
        (
            {"draft": "qwen3-0.6b"},
            "batch-2.json was measured for draft qwen3-0.6b, not llama-3.2-1b: move the file",
        ),
        ({"batch": 4}, "batch-2.json was measured for batch 4, not 2: move the file"),
        ({"device": "NVIDIA H200"}, "batch-2.json was measured for gpu h200_sxm, not h100_sxm: move the file"),
        ({"device": "NVIDIA H100 80GB HBM3", "batch": 2}, None),
        ({"device": "cuda:0"}, None),
    ],
)
def test_a_record_is_one_of_measured_times_and_of_its_place(
    tmp_path: Path, rates_file: Path, record: st.Latency | dict[str, Any], message: str | None
) -> None:
    measured = measured_record(tmp_path, 2)
    if isinstance(record, dict):
        record = replace(measured, provenance=st.Provenance.now("bench", **record))
    record.save(where(tmp_path, 2))
    result = run_plan(rates_file, "--batch", 2, "--measured", tmp_path)
    assert result.exit_code == (2 if message else 0), result.output
    assert (message or "") in result.stderr
    assert "is outside the measured contexts" not in result.stderr


def test_what_cannot_be_computed_is_planned_where_it_was_measured(tmp_path: Path, rates_file: Path) -> None:
    measured_record(tmp_path, 1).save(where(tmp_path, 1, "some_card"))
    options = ("--gpu", "some_card", "--measured", tmp_path)
    result = run_plan(rates_file, *options, "--batch", "1,2")
    message = (
        "batch 2 has no record, and its times cannot be computed (unknown GPU 'some_card'): plan only the batch sizes 1"
    )
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
    assert run_plan(rates_file, *options, "--batch", 1).exit_code == 0


def page_of(planned: Schedule) -> str:
    return unescape(schedule_page("Title", planned))


def test_the_page_leads_with_where_it_pays_and_draws_the_first_trees() -> None:
    planned = schedule(RATES, latency_at, range(1, 400, 7), context=512, max_budget=24)
    trees = [tree for *_, tree in planned.ranges() if tree.budget]
    page, best = page_of(planned), int(planned.speedups.argmax())
    assert "nothing beats plain decoding; at all others speculation pays. The highest speedup is predicted" in page
    assert f"{planned.speedups[best]:.2f}x the plain speed with" in page
    assert f"<p>Only the first 3 of {len(trees)} trees are drawn; --out writes all of them.</p>" in page
    assert page.count("<h3>Batch ") == 3


def test_the_figure_names_the_line_of_plain_decoding_and_marks_what_was_planned() -> None:
    sparse = schedule(RATES, latency_at, [1, 64, 100], context=512, max_budget=8)
    dense = schedule(RATES, latency_at, range(1, 65), context=512, max_budget=8)
    for planned, marked in ((sparse, True), (dense, False)):
        figure = speedup_figure(planned)
        assert "plain decoding" in figure
        assert ("<use" in figure.split("times plain speed")[1]) == marked
    assert all(f">{batch}<" in speedup_figure(sparse) for batch in sparse.batches)


def test_too_many_batch_sizes_are_refused_before_they_are_listed() -> None:
    with pytest.raises(ValueError, match="batches must have at most 10,000 sizes, got 1,000,000,000: leave some out"):
        schedule(RATES, latency_at, range(1, 10**9 + 1), context=512)
