"""Schedules with both measured and computed times, and the text and figures of their page."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import spectheory as st
from spectheory.planning.planner import schedule
from spectheory.report.schedules import schedule_page, schedule_rows, speedup_figure
from tests.planning.test_schedule import RATES, latency_at


def mixed(batch: int) -> st.Latency:
    """Computed times for batch 3 and measured times for batch 4. The times are equal."""
    latency = latency_at(1)
    return latency if batch == 4 else replace(latency, computed=True)


def test_a_row_has_one_source_of_times() -> None:
    planned = schedule(RATES, mixed, [3, 4], context=512, max_budget=8)
    table = schedule_rows(planned)
    assert [row[0] for row in table.rows] == ["3", "4 *"]
    assert table.note.startswith("Times for 512 tokens of context are measured (*) at batch 4, computed at batch 3.")
    alone = schedule(RATES, mixed, [4], context=512, max_budget=8)
    assert [row[0] for row in schedule_rows(alone).rows] == ["4"]


def test_the_page_leads_with_the_answer_and_the_flags_and_draws_the_first_trees() -> None:
    planned = schedule(RATES, latency_at, range(1, 400, 7), context=512, max_budget=24)
    page = unescape(schedule_page(planned, ["FLAGS"]))
    assert f'<p class="lead">{planned.summary}</p>' in page
    assert page.index(planned.summary) < page.index("<table>") < page.index("FLAGS") < page.index("Off at batch")
    assert page.count("<h3>Batch ") == 3


def test_the_figure_names_the_line_of_plain_decoding_and_marks_what_was_planned() -> None:
    sparse = schedule(RATES, latency_at, [1, 64, 100], context=512, max_budget=8)
    dense = schedule(RATES, latency_at, range(1, 65), context=512, max_budget=8)
    for planned, marked in ((sparse, True), (dense, False)):
        figure = speedup_figure(planned)
        assert "plain decoding" in figure
        assert ("<use" in figure.split("times plain speed")[1]) == marked
    assert all(f">{batch}<" in speedup_figure(sparse) for batch in sparse.batches)
