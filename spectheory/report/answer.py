"""The answer of a plan or a schedule on one screen, and what is known beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from spectheory.planning.advice import advice
from spectheory.planning.confidence import span, spans
from spectheory.planning.planner import other_models
from spectheory.planning.schedule_record import Cell, Schedule, tree_in_words
from spectheory.report.tables import MISSING, TextTable, plan_rows

MOST_LISTED, MOST_ROWS = 8, 6
"""Maximum number of batch sizes that all get a row, and of rows for more of them."""


def shown_rows(schedule: Schedule, *, explained: bool) -> list[int]:
    """The rows to show: all of a short list; otherwise the first and the last of each range with the same answer.

    Where these are too many, unless they are `explained`, some of them, and always the first and the last.
    """
    if len(schedule.batches) <= MOST_LISTED:
        return list(range(len(schedule.batches)))
    ends = sorted({end for first, last, _ in schedule.ranges() for end in (first, last)})
    rows = np.searchsorted(schedule.batches, ends)
    if len(rows) > MOST_ROWS and not explained:
        rows = rows[np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(int)]
    return rows.tolist()


def schedule_rows(schedule: Schedule, *, explained: bool = False) -> TextTable:
    """One row for each batch size: what to run, its speedup with one interval, tau, and tokens per second.

    Of many batch sizes, see `shown_rows`. Rows are grey where no such deployment was validated at the batch size. With
    a range of contexts, one row for each range of them with the same answers.
    """
    if schedule.cells:
        return _cell_rows(schedule, schedule.cells, explained)
    rows, grey, trees = [], set(), not all(option.tree.is_chain for option in schedule.options)
    mixed = schedule.computed.any() and not schedule.computed.all()
    for row in shown_rows(schedule, explained=explained):
        drafts, interval, judged = schedule.option(row).tree, schedule.speedup_interval(row), schedule.judged(row)
        if not judged:
            grey.add(len(rows))
        ends = f"{interval[0]:.2f}x to {interval[1]:.2f}x" if interval and drafts.budget else MISSING
        cells = [
            f"{schedule.batches[row]}{' *' * bool(mixed and not schedule.computed[row])}",
            tree_in_words(drafts),
            f"{schedule.speedups[row]:.2f}x",
            ends + " ?" * (not judged and ends != MISSING),
            f"{schedule.taus[schedule.choice[row]]:.2f}",
            f"{schedule.tokens_per_second[row]:,.0f}",
            f"{schedule.chain_speedups[row]:.2f}x",
        ]
        rows.append(tuple(cells if trees else cells[:-1]))
    header = ("batch", "run", "speedup", "80% interval", "tau", "tokens/s", "best chain")
    return TextTable(
        title="",
        header=header if trees else header[:-1],
        rows=tuple(rows),
        note=" ".join([_where_times_are_from(schedule), *_where_intervals_are_from(schedule)]),
        grey=frozenset(grey),
    )


def _cell_rows(schedule: Schedule, cells: Sequence[Cell], explained: bool) -> TextTable:
    """A row for each cell; of many, unless they are `explained`, some of them, and always the first and the last."""
    some = range(len(cells)) if explained else np.linspace(0, len(cells) - 1, min(len(cells), MOST_ROWS)).round()
    rows = [
        (
            *(span(*cell.contexts), span(*cell.batches), tree_in_words(cell.tree)),
            "{:.2f}x to {:.2f}x".format(*cell.speedups),
            f"{cell.lost:.1%}",
        )
        for cell in (cells[int(at)] for at in some)
    ]
    note = ["Batch sizes as far as memory allows.", *_where_intervals_are_from(schedule)]
    return TextTable("", ("context", "batch", "run", "speedup", "lost"), tuple(rows), note=" ".join(note))


def _where_intervals_are_from(schedule: Schedule) -> Iterator[str]:
    """Which errors the intervals hold, and where they are assumed."""
    if not schedule.is_replayed and schedule.acceptance.trials is None:
        yield "The rates are taken as exact."
    if schedule.confidence is not None:
        yield schedule.confidence.in_words
        known = any(one.errors.assumed for one in schedule.confidence.classes)
        if known and not schedule.cells and not all(schedule.judged(row) for row in range(len(schedule.batches))):
            format_too = " in this format" * (schedule.confidence.classes[0].errors.speedup is None)
            yield f"Grey, ?: none of them{format_too} at this batch size."


def _where_times_are_from(schedule: Schedule) -> str:
    batches, computed = schedule.batches, schedule.computed
    at = f"for {schedule.context:,} tokens of context"
    if computed.all() or not computed.any():
        return f"All times are {'computed' if computed[0] else 'measured'} {at}."
    measured = f"measured (*) at batch {spans(batches, ~computed)}"
    return f"Times {at} are {measured}, computed at batch {spans(batches, computed)}."


def screen(plan: Schedule, settings: Sequence[str] = (), *, full: bool = False) -> Iterator[RenderableType]:
    """The answer on one screen: what to run, its speed by batch size, the engines' settings, and what to measure.

    Rates of other models than those of the times are named first. `full` shows more rows of many batch sizes.
    """
    yield Text(plan.summary, style="bold")
    if said := other_models(plan.acceptance.provenance, plan.latency.provenance):
        yield Text(f"Careful: {said}.")
    yield schedule_rows(plan, explained=full)
    yield from settings
    if said := " ".join([*advice(plan), *([] if full else ["More with --explain."])]):
        yield Text(said)


def explained(plan: Schedule) -> Iterator[RenderableType]:
    """What the screen leaves out: errors, assumptions, and where the time of a cycle goes."""
    yield from (Text(f"assumed: {said}") for said in plan.provenance.assumptions)
    if (classes := plan.rates.classes) is not None:
        yield Text(f"contexts: {classes.summary}")
    yield plan_rows(plan)
