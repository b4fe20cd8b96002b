"""The page of a schedule and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from spectheory.planning.advice import advice
from spectheory.planning.confidence import span
from spectheory.planning.schedule_record import Schedule
from spectheory.report.answer import schedule_rows
from spectheory.report.figures import tree_figure
from spectheory.report.page import figure_html, folded, prose_html, shell, sources_html, table_html
from spectheory.report.svg import BLUE, MUTED, ORANGE, RED, panels, styled, to_svg

MOST_DRAWN = 3
"""Maximum number of trees drawn on the page: the trees of the smallest batch sizes."""


def _trees(schedule: Schedule) -> list[str]:
    drafted = [(first, last, tree) for first, last, tree in schedule.ranges() if not tree.is_chain]
    figures = []
    for first, last, tree in drafted[:MOST_DRAWN]:
        reach = schedule.option(int(np.searchsorted(schedule.batches, first))).reach(schedule.rates)
        figures.append(f"<h3>Batch {escape(span(first, last))}</h3>\n{figure_html(tree_figure(tree, reach))}")
    return figures


@styled
def speedup_figure(schedule: Schedule) -> str:
    """Speedup against the batch size, for the fastest choice and, where that is another one, for the fastest chain."""
    figure, (axes,) = panels(height_inches=2.9)
    rows = range(len(schedule.batches))
    low, high = np.array([schedule.speedup_interval(row) or (np.nan, np.nan) for row in rows]).T
    judged = np.array([schedule.judged(row) for row in rows])
    beyond = ~judged | np.append(~judged[1:], False)  # from the last batch size that was validated
    for label, colour, among in (("80% interval", BLUE, judged), ("80%, not validated", MUTED, beyond)):
        if (among & ~np.isnan(low)).any():
            axes.fill_between(schedule.batches, low, high, among, color=colour, alpha=0.18, linewidth=0, label=label)
    few = len(schedule.batches) <= 8  # then each has a mark and its number on the axis
    marks: dict[str, Any] = {"marker": "o", "markersize": 4} if few else {}
    axes.plot(schedule.batches, schedule.speedups, color=BLUE, label="fastest", **marks)
    if (schedule.choice != schedule.chain_choice).any():
        axes.plot(schedule.batches, schedule.chain_speedups, color=ORANGE, linestyle="--", label="chain", **marks)
    axes.axhline(1.0, color=RED, linewidth=1, linestyle=":", label="plain decoding")
    axes.set_xscale("log", base=2)
    powers = [batch for batch in 2 ** np.arange(0, 20) if schedule.batches[0] <= batch <= schedule.batches[-1]]
    ticks = schedule.batches.tolist() if few else powers
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.set(xlabel="batch size, sequences", ylabel="times plain speed", title="Speedup by batch size, predicted")
    axes.set_ylim(bottom=min(0.9, float(schedule.speedups.min())))
    figure.legend(loc="outside lower center", ncols=4)
    return to_svg(figure, "Predicted speedup against the batch size")


def schedule_page(schedule: Schedule, settings: Sequence[str] = ()) -> str:
    """The schedule as one HTML page. `settings` are the lines of the engines' flags."""
    stamps = {"times": schedule.provenance, "acceptance": schedule.acceptance.provenance}
    stamp = schedule.provenance
    place = f" on {stamp.gpus or 1} x {stamp.gpu}" if stamp.gpu else ""
    return shell(
        f"{stamp.target or 'target'} with {stamp.draft or 'a draft'}{place}",
        f'<p class="lead">{escape(schedule.summary)}</p>',
        table_html(schedule_rows(schedule)),
        *([f"<pre>{escape(chr(10).join(settings))}</pre>"] if settings else []),
        *(f"<p>{prose_html(sentence)}</p>" for sentence in advice(schedule)),
        figure_html(speedup_figure(schedule)),
        folded("What is assumed", *(f"<p>{escape(said)}.</p>" for said in schedule.provenance.assumptions)),
        *([folded("The trees", *trees)] if (trees := _trees(schedule)) else []),
        sources_html(stamps),
    )
