"""How the time model is judged: as shipped, with the judged source left out of the fit, and with calibration.

A `Prediction` sets the seconds of a row beside what was measured. Errors are of rates and speedups:
predicted / measured - 1, so a rate three times too high is an error of 200%. They are stated by group and by class of
deployments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import log, log1p
from statistics import median

import numpy as np

from benchmarks.validation.parameters import Parameters
from benchmarks.validation.predicting import Seconds, target_of
from benchmarks.validation.rows import Row, Unread
from spectheory import InputError
from spectheory.core.record import to_json
from spectheory.hardware.deployment_class import ENOUGH, EVERY, ClassErrors, LogErrors, deployment_class

Fit = Callable[[Sequence[Row], Parameters | None], Parameters]

CLASSES = (
    "dense 16-bit, one request",
    "dense, batch 2 to 64",
    "MoE, one GPU",
    "linear attention, one GPU",
    "several GPUs",
    "4-bit kernels",
    "plain steps in serving",
    "Hugging Face eager",
    "other formats or batches",
)
"""Classes of deployments."""
MOST = 0.8
"""The nominal coverage of a band."""
OURS = "ours.csv"
"""The project's own rows, of one host that launches slowly."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class Prediction:
    """A row and its predicted seconds.

    `plain_used` and `gain_used` say that its plain rate or its speedup was used for calibration; it has no error then.
    `beyond` says that its batch is smaller or larger than those of all runs of the calibration.
    """

    row: Row
    seconds: Seconds
    plain_used: bool = False
    gain_used: bool = False
    beyond: bool = False

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


def predicted(rows: Iterable[Row], predict: Callable[[Row], Seconds]) -> tuple[list[Prediction], list[Unread]]:
    """The predictions of `rows`, and the rows that have none or judge nothing, with the reason."""
    found, without = [], []
    for row in rows:
        try:
            if row.fault:
                raise InputError(row.fault)
            found.append(Prediction(row, predict(row)))
        except InputError as error:
            without.append(Unread(row.file, row.number, f"{row.source}: {row.target} on {row.gpu}", str(error)))
    return found, without


def left_out(
    rows: Sequence[Row], known: Sequence[Row], fit: Fit, start: Parameters | None, group: Callable[[Row], str]
) -> dict[str, Parameters]:
    """For each group of `rows`, such as a source or a project: parameters fitted on the rows of `known` from elsewhere.

    A row is from elsewhere if neither its group nor its address is one of the group. `start` is where the fits start.
    """
    addresses: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        addresses[group(row)].add(row.url)
    return {
        name: fit([row for row in known if group(row) != name and (row.url or None) not in urls], start)
        for name, urls in addresses.items()
    }


def class_of(row: Row) -> str:
    """The class of `CLASSES` to which a row belongs, by its engine, models, GPUs and batch."""
    return deployment_class(
        row.engine, target_of(row.target, row.engine), row.gpus, row.batch, plain=row.kind == "plain"
    )


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


def classes_text(absent: Sequence[Prediction], calibrated: Sequence[Prediction]) -> str:
    """The table `validated_classes.json` of the library: the errors of each class, as plans print them.

    `absent` are predictions with the source left out, `calibrated` those after a calibration on runs of the deployment.
    """
    rows = [*class_errors(absent), *class_errors(calibrated, calibrated=True)]
    sources = len({one.row.source for one in absent})
    files = " and ".join(dict.fromkeys(one.row.file for one in absent))
    judged = (
        f"{len(absent)} rows of {sources} sources in {files}, each predicted with costs fitted to the other sources"
    )
    return to_json({"judged": judged, "classes": [asdict(row) for row in rows]})


def class_errors(predictions: Iterable[Prediction], *, calibrated: bool = False) -> list[ClassErrors]:
    """The errors of the speedups of each class of `CLASSES` that has any, and of all of them."""
    pool = judged(predictions)
    classes = {name: [one for one in pool if class_of(one.row) == name] for name in CLASSES}
    classes[EVERY] = pool
    return [ClassErrors(name, *_sizes(found, pool), calibrated) for name, found in classes.items() if found]


def judged(predictions: Iterable[Prediction]) -> list[Prediction]:
    """The predictions whose speedup has an error."""
    return [one for one in predictions if one.gain_error is not None]


def band(found: Sequence[Prediction], pool: Sequence[Prediction]) -> float:
    """The size below which the share `MOST` of the errors of speedups is, if each source has one vote.

    Fewer than `ENOUGH` sources say too little, so the errors of all classes, `pool`, count if they are larger.
    """
    sizes: dict[str, list[float]] = defaultdict(list)
    for one in found:
        sizes[one.row.source].append(abs(log1p(one.gain_error or 0.0)))
    every = sorted((size, 1 / len(sizes) / len(own)) for own in sizes.values() for size in own)
    reached = np.cumsum([weight for _, weight in every])
    place = int(np.searchsorted(reached, MOST - ROUNDING))
    own = every[min(place, len(every) - 1)][0]
    return own if len(sizes) >= ENOUGH or found is pool else max(own, band(pool, pool))


def bands(predictions: Iterable[Prediction]) -> dict[tuple[str, str], float]:
    """For each class and source, the band of the other sources of the class, or of all if it has no others.

    The rows of `OURS` make no band: the shipped bands are made without them.
    """
    every, found = judged(predictions), {}
    for name, source in dict.fromkeys((class_of(one.row), one.row.source) for one in every):
        pool = [one for one in every if one.row.source != source and one.row.file != OURS]
        if pool:
            found[name, source] = band([one for one in pool if class_of(one.row) == name] or pool, pool)
    return found


def coverage(predictions: Iterable[Prediction]) -> dict[str, dict[str, list[bool]]]:
    """For each class and source: whether each speedup was within the band of the other sources."""
    every = judged(predictions)
    sizes, held = bands(every), defaultdict[str, dict[str, list[bool]]](lambda: defaultdict(list))
    for one in every:
        if (size := sizes.get((class_of(one.row), one.row.source))) is not None:
            held[class_of(one.row)][one.row.source].append(abs(log1p(one.gain_error or 0.0)) <= size)
    return held


def _sizes(found: Sequence[Prediction], pool: Sequence[Prediction]) -> tuple[LogErrors, tuple[str, ...]]:
    """The sizes of the errors of a class, and its engines."""
    rows = [one.row for one in found]
    batches, engines = (tuple(sorted({getattr(row, name) for row in rows})) for name in ("batch", "engine"))
    sizes = LogErrors(float(f"{band(found, pool):.4g}"), len(rows), len({row.source for row in rows}), batches)
    return sizes, engines
