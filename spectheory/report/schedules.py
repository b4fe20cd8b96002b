"""The report of a schedule: one table, three figures and one page."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from spectheory.core.tree import Tree
from spectheory.planning.confidence import span, spans
from spectheory.planning.schedule_record import Schedule
from spectheory.report.figures import tree_figure
from spectheory.report.page import figure_html, folded_table, shell, sources_html
from spectheory.report.svg import BLUE, GREEN, ORANGE, RED, panels, styled, to_svg
from spectheory.report.tables import MISSING, TextTable
from spectheory.search import yield_table

MOST_DRAWN = 3
"""Maximum number of trees drawn on the page: the trees of the smallest batch sizes."""


def schedule_rows(schedule: Schedule, *, explained: bool = True) -> TextTable:
    """One row for each range of batch sizes with the same answer and the same source of times.

    The numbers in a row are for its first and its last batch size. The note says what the columns are if it is
    `explained`.
    """
    rows = []
    halves = [
        None if ends is None else (ends[1] - ends[0]) / 2
        for ends in map(schedule.speedup_interval, range(len(schedule.batches)))
    ]
    mixed = schedule.computed.any() and not schedule.computed.all()
    for first, last, tree, computed in schedule.answers():
        ends = np.searchsorted(schedule.batches, [first, last]).tolist()
        rows.append(
            (
                span(first, last) + " *" * bool(mixed and not computed),
                tree_in_words(tree).replace(" nodes", ""),
                f"{schedule.taus[schedule.choice[ends[0]]]:.2f}",
                _at_ends("{:,.0f}", schedule.tokens_per_second, ends),
                _at_ends("{:.2f}x", schedule.speedups, ends),
                _at_ends("{:.2g}", halves, ends),
                _at_ends("{:.2f}x", schedule.chain_speedups, ends),
            )
        )
    compared = "For each number of nodes, depth and width, the tree with the most tokens per target call was compared."
    if schedule.is_replayed:
        compared = "Trees that the rates propose, and chains, were replayed on recorded texts and compared."
    columns = (
        f"{compared} Numbers are for the first and the last batch size of a row; ± is half the 95% interval of the "
        "speedup. Chain: speedup of the fastest chain."
    )
    return TextTable(
        title=f"Fastest at each batch size, {schedule.context:,} tokens of context, predicted",
        header=("batch", "nodes", "tau", "tokens/s", "speedup", "±", "chain"),
        rows=tuple(rows),
        note=" ".join([_where_it_pays(schedule), *[columns] * explained, _where_times_are_from(schedule)]),
    )


def _at_ends(pattern: str, values: Any, ends: list[int]) -> str:
    texts = [MISSING if (value := values[end]) is None else pattern.format(value) for end in ends]
    return " to ".join(dict.fromkeys(texts))


def _where_it_pays(schedule: Schedule) -> str:
    plain = np.array([schedule.options[i].tree.budget == 0 for i in schedule.choice])
    if plain.all() or not plain.any():
        does = "Speculation pays" if not plain.any() else "Nothing beats plain decoding"
        return f"{does} at batch {spans(schedule.batches, plain == plain[0])}."
    return f"At batch {spans(schedule.batches, plain)} nothing beats plain decoding; at all others speculation pays."


def _where_times_are_from(schedule: Schedule) -> str:
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
    drafted = [(first, last, tree) for first, last, tree in schedule.ranges() if tree.budget]
    figures = []
    for first, last, tree in drafted[:MOST_DRAWN]:
        reach = schedule.option(int(np.searchsorted(schedule.batches, first))).reach(schedule.rates)
        figures.append(f"<h3>Batch {escape(span(first, last))}</h3>\n{figure_html(tree_figure(tree, reach))}")
    return figures


@styled
def speedup_figure(schedule: Schedule) -> str:
    """Speedup against the batch size, for the fastest choice and the fastest chain."""
    figure, (axes,) = panels(height_inches=2.9)
    intervals = [schedule.speedup_interval(row) for row in range(len(schedule.batches))]
    if all(intervals):
        low, high = np.array(intervals).T
        axes.fill_between(schedule.batches, low, high, color=BLUE, alpha=0.18, linewidth=0, label="95% interval")
    few = len(schedule.batches) <= 8  # then each has a mark and its number on the axis
    marks: dict[str, Any] = {"marker": "o", "markersize": 4} if few else {}
    axes.plot(schedule.batches, schedule.speedups, color=BLUE, label="fastest", **marks)
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
    stamps = {"times": schedule.provenance, "acceptance": schedule.acceptance.provenance}
    return shell(
        title,
        f'<p class="lead">{escape(_lead(schedule))}</p>',
        *(f"<p>{escape(line[0].upper() + line[1:])}.</p>" for line in schedule.error_lines),
        *(f"<p>Assumed: {escape(sentence)}.</p>" for sentence in schedule.provenance.assumptions),
        figure_html(speedup_figure(schedule)),
        folded_table(schedule_rows(schedule)),
        figure_html(budget_figure(schedule)),
        *_trees(schedule),
        sources_html(stamps),
    )


def _lead(schedule: Schedule) -> str:
    best = int(schedule.speedups.argmax())
    if (tree := schedule.option(best).tree).budget == 0:
        return _where_it_pays(schedule)
    what = f"{schedule.speedups[best]:.2f}x the plain speed with {tree_in_words(tree)}"
    return f"{_where_it_pays(schedule)} The highest speedup is predicted at batch {schedule.batches[best]}: {what}."
