"""Plans for a range of contexts: the cells with one decision, and the one schedule that loses least in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spectheory.planning.schedule_record import Cell, Schedule


def over_contexts(planned: Sequence[Schedule]) -> Schedule:
    """The schedule of `planned`, one for each context, that loses least at worst in the others, with the cells of all.

    Contexts increase. The batch sizes of each schedule are the first ones of the schedule before, as memory allows.
    """
    losses = [[_loss(one, at) for at in planned] for one in planned]
    best = int(np.argmin([np.concatenate(every).max() for every in losses]))
    cells, first = [], 0
    for last, after in enumerate([*planned[1:], None]):
        trees = [[at.option(row).tree for row in range(len(at.batches))] for at in (planned[first], after) if at]
        if after is None or trees[0][: len(trees[1])] != trees[1]:
            cells += _cells(planned[first : last + 1], losses[best][first : last + 1])
            first = last + 1
    return replace(planned[best], cells=tuple(cells))


def _loss(one: Schedule, at: Schedule) -> np.ndarray:
    """The share of the speed of `at` that the choices of `one` lose, at each batch size; its last one serves more."""
    rows = np.arange(len(at.batches)).clip(max=len(one.batches) - 1)
    choices = {name: getattr(one, name)[rows] for name in ("choice", "chain_choice")}
    there = {name: getattr(at, name) for name in ("context", "batches", "latencies")}
    return 1 - replace(one, **choices, **there).speedups / at.speedups


def _cells(group: Sequence[Schedule], losses: Sequence[np.ndarray]) -> list[Cell]:
    """The cells of consecutive contexts with the same decisions."""
    found, contexts = [], (group[0].context, group[-1].context)
    for low, high, tree in group[0].ranges():
        every = [zip(at.batches, at.speedups, lost, strict=True) for at, lost in zip(group, losses, strict=True)]
        _, speedups, lost = zip(*[one for rows in every for one in rows if low <= one[0] <= high], strict=True)
        ends = float(min(speedups)), float(max(speedups))
        found.append(Cell(contexts, (low, high), tree, ends, max(0.0, float(max(lost)))))
    return found
