"""What the predictions are worth: errors by group, the worst ones, break-even batches, decisions, choice of K."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from statistics import median

from benchmarks.validation.protocol import Predict, Prediction
from benchmarks.validation.rows import Row
from spectheory import InputError

LARGEST_BATCH = 4096
"""A predicted break-even batch is sought up to this batch."""


@dataclass(frozen=True)
class Errors:
    """The errors of one group: their number, median size, median (bias), and largest size."""

    count: int
    size: float
    bias: float
    largest: float

    @classmethod
    def of(cls, errors: Iterable[float | None]) -> Errors | None:
        """The statistics of the errors that exist; None if there are none."""
        found = [error for error in errors if error is not None]
        if not found:
            return None
        return cls(len(found), median(map(abs, found)), median(found), max(map(abs, found)))


def grouped(
    predictions: Iterable[Prediction], key: Callable[[Row], str]
) -> dict[str, tuple[Errors | None, Errors | None, Errors | None]]:
    """For each group: the errors of speedups, of plain steps and of forwards."""
    groups: dict[str, list[Prediction]] = defaultdict(list)
    for one in predictions:
        groups[key(one.row)].append(one)
    return {
        name: (
            Errors.of(one.gain_error for one in found),
            Errors.of(one.plain_error for one in found if one.row.kind != "forward"),
            Errors.of(one.plain_error for one in found if one.row.kind == "forward"),
        )
        for name, found in groups.items()
    }


def worst(predictions: Iterable[Prediction], many: int = 10) -> list[tuple[Prediction, str, float]]:
    """The rows with the largest errors by ratio: the prediction, what it is wrong about, and the error."""
    errors = [
        (one, what, error)
        for one in predictions
        for what, error in (("speedup", one.gain_error), ("plain", one.plain_error))
        if error is not None
    ]
    return sorted(errors, key=lambda found: -abs(log(1 + found[2])))[:many]


@dataclass(frozen=True)
class BreakEven:
    """The batch from which speculation does not pay: measured in a sweep, and predicted.

    `measured` is None if the sweep ends at `last` with a speedup above 1; `predicted` is None above `LARGEST_BATCH`.
    `between` are the batches of the sweep around it: 0 and the first one if that has a speedup of at most 1, the last
    one twice if none has.
    `gain` is the predicted speedup at the measured batch, or at `last`.
    """

    row: Row
    measured: float | None
    between: tuple[int, int]
    last: int
    predicted: float | None
    gain: float

    @property
    def inside(self) -> bool:
        """Whether the measured speedup falls to 1 between two batches of the sweep."""
        return self.measured is not None and self.between[0] > 0

    @property
    def factor(self) -> float:
        """By what factor the prediction is off, at least 1. Beyond the ends of a sweep every prediction is right."""
        predicted = self.predicted or LARGEST_BATCH
        if self.measured is None:
            return max(1.0, self.last / predicted)
        if self.between[0] == 0:
            return max(1.0, predicted / self.measured)
        return max(self.measured / predicted, predicted / self.measured)


def break_evens(predictions: Iterable[Prediction], predict: Predict) -> list[BreakEven]:
    """The break-even batch of each deployment and shape with measured speedups at two batches or more."""
    sweeps: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for one in predictions:
        if one.row.gain is not None and one.seconds.cycle is not None:
            key = one.row.deployment, one.row.kind, one.row.depth, one.row.nodes
            sweeps[key].append(one.row)
    found = []
    for rows in sweeps.values():
        points = sorted({row.batch: row for row in rows}.items())
        if len(points) >= 2:
            gains, last = [(batch, row.gain or 0.0) for batch, row in points], points[-1][0]
            measured, predicted = _crossing(gains), _predicted(points, predict)
            gain = _gain_at(points, round(measured or last), predict)
            found.append(BreakEven(points[0][1], measured, _between(gains), last, predicted, gain))
    return found


def _between(gains: Sequence[tuple[int, float]]) -> tuple[int, int]:
    """The batches between which the speedup first falls to 1: 0 for one below the first, the last one twice if none."""
    batches = [0, *(batch for batch, _ in gains)]
    place = next((place for place, (_, gain) in enumerate(gains) if gain <= 1), None)
    return (batches[-1], batches[-1]) if place is None else (batches[place], batches[place + 1])


def _crossing(gains: Sequence[tuple[int, float]]) -> float | None:
    """The first batch at which the speedup is 1, interpolated in the logarithms of batch and speedup."""
    if gains[0][1] <= 1:
        return float(gains[0][0])
    for (low, above), (high, below) in pairwise(gains):
        if below <= 1:
            return exp(log(low) + (log(high) - log(low)) * log(above) / (log(above) - log(below)))
    return None


def _gain_at(points: Sequence[tuple[int, Row]], batch: int, predict: Predict) -> float:
    """The predicted speedup at a batch, with the nearest measured row."""
    nearest = min(points, key=lambda point: abs(log(point[0] / batch)))[1]
    return predict(replace(nearest, batch=batch)).gain(nearest.tau) or 0.0


def _predicted(points: Sequence[tuple[int, Row]], predict: Predict) -> float | None:
    gains, batch = [], 1
    while batch <= LARGEST_BATCH:
        try:
            gains.append((batch, _gain_at(points, batch, predict)))
        except InputError:
            break
        batch = max(batch + 1, round(batch * 1.05))
    return _crossing(gains)


@dataclass(frozen=True)
class Decision:
    """Whether to speculate at one row, by the predicted speedup, and what an error costs of the throughput."""

    row: Row
    gain: float
    cost: float

    @property
    def on(self) -> bool:
        """Whether speculation is predicted to pay."""
        return self.gain > 1


def decisions(predictions: Iterable[Prediction]) -> list[Decision]:
    """The decisions of all rows with a measured speedup that were not used for calibration."""
    found = []
    for one in predictions:
        gain, measured = one.seconds.gain(one.row.tau), one.row.gain
        if gain is not None and measured is not None and not one.gain_used:
            found.append(Decision(one.row, gain, max(0.0, 1 - measured if gain > 1 else 1 - 1 / measured)))
    return found


@dataclass(frozen=True)
class Choice:
    """The shape chosen by prediction among the shapes that a source measured: its regret in measured speedup."""

    row: Row
    best: Row
    shapes: int
    regret: float


def choices(predictions: Iterable[Prediction]) -> list[Choice]:
    """The choices of K or of a tree for each deployment, batch, context and task with several measured shapes."""
    sweeps: dict[tuple[object, ...], list[Prediction]] = defaultdict(list)
    for one in predictions:
        if one.row.gain is not None and one.seconds.cycle is not None:
            task = one.row.note.split(",")[-1] if one.row.engine == "hf" else ""
            sweeps[*one.row.deployment, one.row.batch, one.row.context, task].append(one)
    found = []
    for sweep in sweeps.values():
        shapes = {(one.row.kind, one.row.depth, one.row.nodes) for one in sweep}
        if len(shapes) > 1:
            chosen = max(sweep, key=lambda one: one.seconds.gain(one.row.tau) or 0.0).row
            best = max(sweep, key=lambda one: one.row.gain or 0.0).row
            found.append(Choice(chosen, best, len(shapes), 1 - (chosen.gain or 0.0) / (best.gain or 1.0)))
    return found


@dataclass(frozen=True)
class Disagreement:
    """What several sources measured of one setting: no model that does not know the source can be nearer to all.

    Attributes:
        rows: a row of each source.
        what: `plain` for the seconds of a plain step, `speedup` for the speedup over tau.
        values: what each of `rows` measured, in the middle of its source.
    """

    rows: tuple[Row, ...]
    what: str
    values: tuple[float, ...]

    @property
    def spread(self) -> float:
        """The largest value over the smallest one, minus 1."""
        return max(self.values) / min(self.values) - 1

    @property
    def least_error(self) -> float:
        """The error that the best single prediction has for the farthest of them: the root of the quotient, minus 1."""
        return (max(self.values) / min(self.values)) ** 0.5 - 1


def disagreements(rows: Iterable[Row]) -> list[Disagreement]:
    """The settings that several sources measured: engine, GPUs, models, shape, batch, contexts within a factor of 1.5.

    Speedups are compared over tau, so that heads of one kind with different acceptance can be compared.
    """
    settings: dict[tuple[object, ...], dict[str, list[tuple[Row, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        place = row.engine, row.gpu, row.gpus, row.placement, row.target, row.batch
        if row.plain_seconds is not None and row.kind != "forward":
            settings["plain", *place][row.source].append((row, row.plain_seconds))
        if row.gain is not None:
            shape = row.draft, row.kind, row.depth, row.nodes
            settings["speedup", *place, *shape][row.source].append((row, row.gain / row.tau))
    found = []
    for key, sources in settings.items():
        first = [known[0][0] for known in sources.values()]
        contexts = [row.context for row in first]
        if len(first) > 1 and max(contexts) <= 1.5 * min(contexts):
            values = tuple(median(value for _, value in known) for known in sources.values())
            found.append(Disagreement(tuple(first), str(key[0]), values))
    return sorted(found, key=lambda one: -one.spread)
