"""What predictions are for: on/off decisions and what wrong ones lose, and the batch sizes at which drafts stop paying.

A break-even is where a speedup crosses 1 between two batches of a sweep: one deployment, shape and note. Between
batch sizes, the logarithm of the speedup is linear in the logarithm of the batch. The predicted ranges are the batch
sizes at which 1 is within the band of the predicted speedup; a range that the sweep cuts has an open end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf

import numpy as np

from benchmarks.validation.errors import Prediction, bands, class_of
from spectheory.report.tables import MISSING, TextTable

COSTLY, WIDEST = 0.05, 3.0
"""A wrong decision that loses more, and a range of break-evens that spans a larger factor, misses the aim."""

FINE = 10_001
"""Points at which a sweep is compared with its band."""


def loss(one: Prediction) -> float | None:
    """The share of the measured speed that is lost by drafting where a speedup is predicted; None without a speedup."""
    predicted, measured = one.seconds.gain(one.row.tau), one.row.gain
    if predicted is None or measured is None or one.gain_used:
        return None
    return 1 - (measured if predicted > 1 else 1.0) / max(measured, 1.0)


@dataclass(frozen=True)
class BreakEven:
    """The break-evens of one sweep, in batch sizes: the measured ones, and the predicted ranges."""

    name: str
    measured: tuple[float, ...]
    ranges: tuple[tuple[float, float], ...]

    @property
    def held(self) -> bool:
        """Whether each measured break-even is in a range."""
        return all(any(low <= one <= high for low, high in self.ranges) for one in self.measured)

    @property
    def span(self) -> float:
        """The largest factor from the beginning of a range to its end; 1 without a range."""
        return max((high / low if low else inf for low, high in self.ranges), default=1.0)


def break_evens(predictions: Sequence[Prediction]) -> list[BreakEven]:
    """The break-evens of each sweep of three batch sizes or more whose measured speedup crosses 1."""
    sweeps: dict[tuple[object, ...], list[Prediction]] = defaultdict(list)
    for one in predictions:
        if one.row.gain is not None and one.seconds.cycle is not None:
            sweeps[*one.row.deployment, one.row.depth, one.row.nodes, one.row.note].append(one)
    sizes, found = bands(predictions), []
    for own in sweeps.values():
        own.sort(key=lambda one: one.row.batch)
        batches = np.log([one.row.batch for one in own])
        measured, predicted = (
            np.log([known or 1.0 for known in each])
            for each in ([one.row.gain for one in own], [one.seconds.gain(one.row.tau) for one in own])
        )
        crossed = _crossings(batches, measured)
        if len(own) > 2 and crossed:
            row = own[0].row
            widths = np.array([sizes.get((class_of(one.row), row.source), inf) for one in own])
            name = f"{row.source}: {row.draft} of {row.depth}, {row.engine} on {row.gpu}"
            found.append(BreakEven(name, tuple(map(exp, crossed)), _ranges(batches, predicted, widths)))
    return found


def _crossings(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Where the line through the points crosses 0."""
    places = np.flatnonzero(y[:-1] * y[1:] < 0)
    return [float(x[n] - y[n] * (x[n + 1] - x[n]) / (y[n + 1] - y[n])) for n in places]


def _ranges(batches: np.ndarray, predicted: np.ndarray, widths: np.ndarray) -> tuple[tuple[float, float], ...]:
    """The ranges in which the line through `predicted` is within `widths` of 0."""
    fine = np.linspace(batches[0], batches[-1], FINE)
    within = np.interp(fine, batches, widths) - np.abs(np.interp(fine, batches, predicted))
    ends = _crossings(fine, within)
    ends = [*([-inf] if within[0] > 0 else []), *ends, *([inf] if within[-1] > 0 else [])]
    return tuple((exp(low), exp(high)) for low, high in zip(ends[::2], ends[1::2], strict=True))


def decision_tables(columns: dict[str, list[Prediction]]) -> list[TextTable]:
    """For each column, the decisions and what wrong ones lose; and the break-evens of each sweep."""
    rows, sweeps = [], []
    for title, found in columns.items():
        losses = [(lost, one.row) for one in found if (lost := loss(one)) is not None]
        worst, row = max(losses, key=lambda each: each[0], default=(0.0, None))
        costly = sum(lost > COSTLY for lost, _ in losses)
        where = f"{row.source}: {row.target}, batch {row.batch}" if row and worst > 0 else MISSING
        rows.append((title, f"{costly} of {len(losses)}", f"{worst:.0%}", where))
        for one in break_evens(found):
            measured = ", ".join(f"{batch:.0f}" for batch in one.measured)
            ranges = ", ".join(f"{low:.0f} to {high:.0f}" for low, high in one.ranges) or MISSING
            sweeps.append((title, one.name, measured, ranges, "yes" if one.held else "no", f"{one.span:.1f}"))
    aimed = sum(row[4] == "yes" and float(row[5]) <= WIDEST for row in sweeps)
    note = f"Held by ranges that span at most a factor of {WIDEST:.0f}: {aimed} of {len(sweeps)}."
    header = ("column", "sweep", "measured", "predicted", "held", "factor")
    return [
        TextTable("Decisions", ("column", f"lose over {COSTLY:.0%}", "worst", "where"), tuple(rows)),
        TextTable("Break-evens", header, tuple(sweeps), note=note),
    ]
