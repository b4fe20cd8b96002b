"""How the time model is judged: as shipped, with the judged source left out of the fit, and with calibration.

A `Prediction` sets the seconds of a row beside what was measured. Errors are of rates and speedups:
predicted / measured - 1, so a rate three times too high is an error of 200%.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.validation.names import target_of
from benchmarks.validation.parameters import Parameters
from benchmarks.validation.predicting import Seconds
from benchmarks.validation.rows import Row, Unread
from spectheory import InputError
from spectheory.hardware.deployment_class import deployment_class

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
"""Classes of deployments."""


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


def class_of(row: Row) -> str:
    """The class of `CLASSES` to which a row belongs, by its engine, models, GPUs and batch."""
    return deployment_class(
        row.engine, target_of(row.target, row.engine), row.gpus, row.batch, plain=row.kind == "plain"
    )
