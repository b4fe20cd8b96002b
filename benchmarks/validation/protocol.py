"""How the time model is judged: as shipped, with the judged source left out of the fit, and with calibration.

A `Prediction` sets the seconds of a row beside what was measured. Errors are of rates and speedups:
predicted / measured - 1, so a rate three times too high is an error of 200%.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.validation.names import target_of
from benchmarks.validation.parameters import Parameters
from benchmarks.validation.predicting import Seconds
from benchmarks.validation.rows import Row, Unread
from spectheory import InputError
from spectheory.hardware.deployment_class import deployment_class

Predict = Callable[[Row], Seconds]
Fit = Callable[[Sequence[Row], Parameters | None], Parameters]

CLASSES = (
    "dense 16-bit, one request",
    "dense, batch 2 to 64",
    "MoE, one GPU",
    "several GPUs",
    "4-bit kernels",
    "plain steps in serving",
    "Hugging Face eager",
    "other",
)
"""Classes of deployments. The first six are in the table of aims."""
NEAR = 64
"""The second plain row of a calibration is the one whose batch is nearest to this number."""
MIDDLE = 16
"""The speculative row of a calibration is the one whose batch is nearest to this number."""


@dataclass(frozen=True)
class Prediction:
    """A row and its predicted seconds.

    `plain_used` and `gain_used` say that its plain rate or its speedup was used for calibration; it has no error then.
    """

    row: Row
    seconds: Seconds
    plain_used: bool = False
    gain_used: bool = False

    @property
    def plain_error(self) -> float | None:
        """Error of the plain rate or of the rate of a forward; None if the row states none."""
        measured = self.row.plain_seconds
        return None if measured is None or self.plain_used else measured / self.seconds.plain - 1

    @property
    def gain_error(self) -> float | None:
        """Error of the speedup; None if the row states none."""
        gain, measured = self.seconds.gain(self.row.tau), self.row.gain
        return None if gain is None or measured is None or self.gain_used else gain / measured - 1


def predicted(rows: Iterable[Row], predict: Predict) -> tuple[list[Prediction], list[Unread]]:
    """The predictions of `rows`, and the rows that have none, with the reason."""
    found, without = [], []
    for row in rows:
        try:
            found.append(Prediction(row, predict(row)))
        except InputError as error:
            without.append(Unread(row.file, row.number, f"{row.source}: {row.target} on {row.gpu}", str(error)))
    return found, without


def left_out(rows: Sequence[Row], known: Sequence[Row], fit: Fit, start: Parameters | None) -> dict[str, Parameters]:
    """For each source of `rows`: parameters that were fitted on the rows of `known` from elsewhere.

    A row is from elsewhere if neither its source nor its address is one of the source. `start` is where the fits start.
    """
    addresses: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        addresses[row.source].add(row.url)
    return {
        source: fit([row for row in known if row.source != source and (row.url or None) not in urls], start)
        for source, urls in addresses.items()
    }


@dataclass(frozen=True)
class Runs:
    """What a deployment is calibrated on: one or two plain rows, and a speculative row; those that it has.

    The plain rows are of the same machine (source, engine, GPUs, placement, target): the one of the smallest batch and
    the one of another batch that is nearest to 64. The speculative row is the one whose batch is nearest to 16. Of
    several such rows the first is taken. For forwards of n tokens, n stands for the batch.
    """

    plain: tuple[Row, ...]
    spec: Row | None

    @classmethod
    def of(cls, machine: Sequence[Row], deployment: Sequence[Row]) -> Runs:
        """The runs among the rows of a machine and of one of its deployments."""
        plain = sorted((row for row in machine if row.plain_seconds is not None), key=lambda row: row.number)
        first = min(plain, key=_load, default=None)
        others = [row for row in plain if first is not None and _load(row) != _load(first)]
        second = min(others, key=lambda row: abs(_load(row) - NEAR), default=None)
        spec = sorted((row for row in deployment if row.gain is not None), key=lambda row: row.number)
        chosen = min(spec, key=lambda row: abs(row.batch - MIDDLE), default=None)
        return cls(tuple(row for row in (first, second) if row is not None), chosen)

    def marked(self, one: Prediction) -> Prediction:
        """`one`, marked where its own measurements were used."""
        used = {_plain_run(row) for row in self.plain}
        spec = self.spec is not None and one.row.number == self.spec.number
        return replace(one, plain_used=_plain_run(one.row) in used, gain_used=spec)

    @property
    def rows(self) -> list[Row]:
        """Rows that state exactly what the calibration uses: plain rates without speedups, and one speedup."""
        plain = [replace(row, spec_rate=None, speedup=None) for row in self.plain]
        spec = [replace(self.spec, plain_rate=None, spec_rate=None, speedup=self.spec.gain)] if self.spec else []
        return plain + spec


def calibrated(rows: Sequence[Row], again: Callable[[list[Row], Runs], list[Seconds]]) -> list[Prediction]:
    """The predictions after each deployment was calibrated on its `Runs`; `again` predicts its rows with them."""
    found: list[Prediction] = []
    for machine in _divided(rows, lambda row: (row.machine, row.kind == "forward")):
        for deployment in _divided(machine, lambda row: row.deployment):
            runs = Runs.of(machine, deployment)
            seconds = again(deployment, runs)
            found += [runs.marked(Prediction(row, at)) for row, at in zip(deployment, seconds, strict=True)]
    return sorted(found, key=lambda one: (one.row.file, one.row.number))


def shifted(rows: list[Row], runs: Runs, predict: Predict) -> list[Seconds]:
    """A calibration that needs no parameters: the runs set additive times.

    One plain row sets a constant, a second one a time for each sequence, the speculative row a time for each drafted
    level. None makes a step shorter than half of its prediction.
    """
    constant, slope = _line(runs, predict)

    def steps(row: Row) -> Seconds:
        before, more = predict(row), constant + slope * _load(row)
        cycle = None if before.cycle is None else max(before.cycle + more, before.cycle / 2)
        return Seconds(max(before.plain + more, before.plain / 2), cycle)

    level = 0.0
    if runs.spec is not None and runs.spec.gain is not None and (at := steps(runs.spec)).cycle is not None:
        level = (runs.spec.tau * at.plain / runs.spec.gain - at.cycle) / runs.spec.depth
    return [_with_level(steps(row), level * row.depth) for row in rows]


def _with_level(seconds: Seconds, more: float) -> Seconds:
    return seconds if seconds.cycle is None else replace(seconds, cycle=max(seconds.cycle + more, seconds.cycle / 2))


def _line(runs: Runs, predict: Predict) -> tuple[float, float]:
    missing = [(_load(row), (row.plain_seconds or 0.0) - predict(row).plain) for row in runs.plain]
    if len(missing) < 2:
        return (missing[0][1] if missing else 0.0), 0.0
    (low, less), (high, more) = missing
    slope = (more - less) / (high - low)
    return less - slope * low, slope


def _divided(rows: Iterable[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    parts: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        parts[key(row)].append(row)
    return list(parts.values())


def _plain_run(row: Row) -> tuple[float | None, int, int]:
    """What tells two plain measurements of one machine apart: rows of one run repeat its plain rate."""
    return row.plain_rate, _load(row), row.context


def _load(row: Row) -> int:
    return row.nodes if row.kind == "forward" else row.batch


def class_of(row: Row) -> str:
    """The class of `CLASSES` to which a row belongs, by its engine, models, GPUs and batch."""
    return deployment_class(row.engine, target_of(row.target), row.gpus, row.batch, plain=row.kind == "plain")
