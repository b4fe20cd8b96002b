"""The report of a schedule: one table, four figures and one page."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from spectheory.core.tree import Tree
from spectheory.planning.confidence import span, spans
from spectheory.planning.schedule_record import Schedule
from spectheory.report.figures import PARTS, tree_figure
from spectheory.report.page import figure_html, folded_table, shell, sources_html
from spectheory.report.svg import BLUE, GREEN, INK, ORANGE, PAPER, RED, panels, styled, to_svg
from spectheory.report.tables import MISSING, TextTable
from spectheory.search import yield_table

MOST_DRAWN = 3
"""Maximum number of trees drawn on the page: the trees of the smallest batch sizes."""
MOST_MARKS = 8
"""If there are at most this many batch sizes, the axis names each of them."""


def schedule_rows(schedule: Schedule) -> TextTable:
    """One row for each range of batch sizes with the same answer and the same source of times.

    The numbers in a row are for its first batch size.
    """
    rows = []
    by_rates = schedule.rates_speedups
    mixed = schedule.computed.any() and not schedule.computed.all()
    for (first, last, tree, computed), envelope in zip(schedule.answers(), schedule.fastest_envelopes, strict=True):
        at = int(np.searchsorted(schedule.batches, first))
        interval = schedule.speedup_interval(at)
        half = f"{(interval[1] - interval[0]) / 2:.2f}" if interval else MISSING
        rows.append(
            (
                span(first, last) + " *" * bool(mixed and not computed),
                tree_in_words(tree).replace(" nodes", ""),
                f"{schedule.taus[schedule.choice[at]]:.2f}",
                f"{schedule.tokens_per_second[at]:,.0f}",
                f"{schedule.speedups[at]:.2f}x",
                half,
                f"{schedule.chain_speedups[at]:.2f}x",
                f"{envelope.levels},{envelope.branching},{envelope.nodes}" if envelope else MISSING,
                f"{max(0.0, 1 - envelope.speedup / by_rates[at]):.1%}" if envelope else MISSING,
            )
        )
    return TextTable(
        title=f"Fastest at each batch size, {schedule.context:,} tokens of context, predicted",
        header=("batch", "nodes", "tau", "tokens/s", "speedup", "±", "chain", "envelope", "loses"),
        rows=tuple(rows),
        note=f"{_where_it_pays(schedule)} {_what_was_compared(schedule)} Numbers are for the first batch size of a "
        "row; ± is half the 95% interval of the speedup. Chain: speedup of the fastest chain. Envelope: levels, "
        "branching and nodes of the fastest EAGLE-2 tree. "
        f"Loses: the share of the speed that this envelope loses{', by the rates' if schedule.is_replayed else ''}. "
        f"{_where_times_are_from(schedule)}",
    )


def _what_was_compared(schedule: Schedule) -> str:
    """One sentence on the trees among which the fastest was chosen."""
    if not schedule.is_replayed:
        return "For each number of nodes, depth and width, the tree with the most tokens per target call was compared."
    return "Trees that the rates propose, and chains, were replayed on recorded texts and compared."


def _where_it_pays(schedule: Schedule) -> str:
    """One sentence that names all batch sizes at which nothing beats plain decoding."""
    if len(schedule.batches) == 1:
        does = "speculation pays" if schedule.break_even is None else "nothing beats plain decoding"
        return f"At batch {schedule.batches[0]} {does}."
    at, ranges = schedule.break_even, zip(named_ranges(schedule), schedule.ranges(), strict=True)
    below = [batches for (batches, tree), (first, *_) in ranges if tree.budget == 0 and first != at]
    trailing = [] if at is None else [f"from batch {at} on"]
    planned = "of the planned batch sizes, " if schedule.is_sparse else ""
    plain = " and ".join([f"at batch {batches}" for batches in below] + trailing)
    others = "; at all others speculation pays" * bool(below)
    said = f"{plain} nothing beats plain decoding{others}" if plain else "speculation pays at every batch size"
    said = "speculation pays at each of the planned batch sizes" if planned and not plain else f"{planned}{said}"
    return f"{said[0].upper()}{said[1:]}."


def _where_times_are_from(schedule: Schedule) -> str:
    """One sentence that says at which batch sizes times were measured and at which they were computed."""
    batches, computed = schedule.batches, schedule.computed
    if computed.all() or not computed.any():
        return f"All times are {'computed' if computed[0] else 'measured'}."
    return f"Times are measured (*) at batch {spans(batches, ~computed)}, computed at batch {spans(batches, computed)}."


def tree_in_words(tree: Tree) -> str:
    """Number of nodes and depth of a tree in words, such as `chain of 3`."""
    if tree.budget == 0:
        return "nothing"
    return f"chain of {tree.budget}" if tree.is_chain else f"{tree.budget} nodes, {tree.max_depth} deep"


def _trees(schedule: Schedule) -> list[str]:
    """Drawings of the first trees, each under its batch sizes, and a note if there are more."""
    drafted = [(first, last, tree) for first, last, tree in schedule.ranges() if tree.budget]
    rows = np.searchsorted(schedule.batches, [first for first, _, _ in drafted[:MOST_DRAWN]])
    reaches = [schedule.option(row).reach(schedule.rates) for row in rows.tolist()]
    figures = [
        f"<h3>Batch {escape(span(first, last))}</h3>\n{figure_html(tree_figure(tree, reach))}"
        for (first, last, tree), reach in zip(drafted, reaches, strict=False)
    ]
    if len(drafted) <= MOST_DRAWN:
        return figures
    return [
        *figures,
        f"<p>Only the first {MOST_DRAWN} of {len(drafted)} trees are drawn; --out writes all of them.</p>",
    ]


def named_ranges(schedule: Schedule) -> list[tuple[str, Tree]]:
    """For each range of batch sizes with the same choice: the batch sizes in words, and the tree."""
    return [(span(first, last), tree) for first, last, tree in schedule.ranges()]


@styled
def speedup_figure(schedule: Schedule) -> str:
    """Speedup against the batch size, for the fastest choice and the fastest chain."""
    figure, (axes,) = panels(height_inches=2.9)
    intervals = [schedule.speedup_interval(row) for row in range(len(schedule.batches))]
    if all(intervals):
        low, high = np.array(intervals).T
        axes.fill_between(schedule.batches, low, high, color=BLUE, alpha=0.18, linewidth=0, label="95% interval")
    marks: dict[str, Any] = {"marker": "o", "markersize": 4} if schedule.is_sparse or len(schedule.batches) == 1 else {}
    axes.plot(schedule.batches, schedule.speedups, color=BLUE, label="fastest", **marks)
    axes.plot(schedule.batches, schedule.chain_speedups, color=ORANGE, linestyle="--", label="chain", **marks)
    axes.axhline(1.0, color=RED, linewidth=1, linestyle=":", label="plain decoding")
    axes.set_xscale("log", base=2)
    powers = [batch for batch in 2 ** np.arange(0, 20) if schedule.batches[0] <= batch <= schedule.batches[-1]]
    ticks = powers if len(schedule.batches) > MOST_MARKS else schedule.batches.tolist()
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.set(xlabel="batch size, sequences", ylabel="times plain speed", title="Speedup by batch size, predicted")
    axes.set_ylim(bottom=min(0.9, float(schedule.speedups.min())))
    figure.legend(loc="outside lower center", ncols=4)
    return to_svg(figure, "Predicted speedup against the batch size")


@styled
def step_figure(schedule: Schedule) -> str:
    """Where the time of a cycle goes, by batch size."""
    figure, (axes,) = panels(height_inches=2.7)
    first, last = schedule.batches[[0, -1]]
    doublings = [first, *(size for size in 2 ** np.arange(0, 20) if first < size < last), last]
    rows = np.unique([np.abs(schedule.batches - size).argmin() for size in doublings])
    bottom = np.zeros(len(rows))
    cycles = [schedule.cycle_parts(row) for row in rows]
    plain = [schedule.latencies[row].plain(schedule.context) for row in rows]
    for part, colour in PARTS.items():
        milliseconds = np.array([1e3 * cycle[part] for cycle in cycles])
        axes.bar(range(len(rows)), milliseconds, 0.7, bottom=bottom, color=colour, label=part, edgecolor=PAPER)
        bottom += milliseconds
    axes.plot(range(len(rows)), 1e3 * np.array(plain), "_", color=INK, markersize=16, label="plain step")
    axes.set_xticks(range(len(rows)), [str(batch) for batch in schedule.batches[rows]])
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="batch size, sequences", ylabel="ms", title="Where the time of a cycle goes")
    figure.legend(loc="outside lower center", ncols=4)
    return to_svg(figure, "Milliseconds of a cycle by part, for several batch sizes")


@styled
def budget_figure(schedule: Schedule) -> str:
    """Block efficiency against the budget: the optimum, the best envelope, and the chain."""
    limits, rates = schedule.limits, schedule.acceptance
    most = {"budget": limits.max_budget, "max_depth": limits.max_depth or limits.max_budget}
    best, chain = (yield_table(rates, **most, max_fanout=fanout)[-1] for fanout in (limits.max_fanout, 1))
    envelope = schedule.envelopes.yields()
    figure, (axes,) = panels(height_inches=2.9)
    lines = ((best, BLUE, "-", "optimum"), (envelope, GREEN, "-.", "envelope"), (chain, ORANGE, "--", "chain"))
    for values, colour, dash, name in lines:
        axes.plot(np.arange(len(values)), values, color=colour, linestyle=dash, label=name)
    axes.set(xlabel="budget, drafted tokens per cycle", ylabel="tokens per target call")
    axes.set_title(f"What more budget buys, predicted{' by the rates' if schedule.is_replayed else ''}")
    axes.legend()
    return to_svg(figure, "Predicted tokens per target call against the budget")


def schedule_page(title: str, schedule: Schedule) -> str:
    """The schedule as one HTML page."""
    confidence = schedule.confidence.lines if schedule.confidence else []
    stamps = {"times": schedule.provenance, "acceptance": schedule.acceptance.provenance}
    return shell(
        title,
        f'<p class="lead">{escape(_lead(schedule))}</p>',
        *(f"<p>{escape(line[0].upper() + line[1:])}.</p>" for line in confidence),
        *(f"<p>Assumed: {escape(sentence)}.</p>" for sentence in schedule.provenance.assumptions),
        figure_html(speedup_figure(schedule)),
        folded_table(schedule_rows(schedule)),
        figure_html(budget_figure(schedule)),
        *_trees(schedule),
        figure_html(step_figure(schedule)),
        sources_html(stamps),
    )


def _lead(schedule: Schedule) -> str:
    """The batch sizes at which speculation pays, and the batch size with the highest speedup."""
    best = int(schedule.speedups.argmax())
    tree = schedule.option(best).tree
    if tree.budget == 0:
        return _where_it_pays(schedule)
    what = f"{schedule.speedups[best]:.2f}x the plain speed with a {'' if tree.is_chain else 'tree of '}"
    what += tree_in_words(tree)
    if len(schedule.batches) == 1:
        return f"At batch {schedule.batches[0]}: {what}, predicted."
    return f"{_where_it_pays(schedule)} The highest speedup is predicted at batch {schedule.batches[best]}: {what}."
