"""`Confidence`: how far computed times of such a deployment were off, and what that means for a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spectheory.core.errors import InputError
from spectheory.hardware.deployment_class import IN_WORDS, ClassErrors
from spectheory.hardware.latency import Latency
from spectheory.planning.batch_ranges import span


@dataclass(frozen=True)
class BatchClass:
    """The errors that the class of the batch sizes `first` to `last` had in the validation."""

    first: int
    last: int
    errors: ClassErrors

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise InputError(f"a class must have 1 <= first <= last, got {self.first} and {self.last}")

    def in_words(self, engine: str) -> str:
        """The batch sizes, the class and its errors."""
        errors = self.errors
        said = "not validated"
        if errors.speedup is not None:
            said = errors.speedup.in_words
        elif errors.plain is not None:
            said = f"not validated, except plain steps: {errors.plain.in_words}"
        elsewhere = ", none of them in " + engine
        return (
            f"batch {span(self.first, self.last)} [{IN_WORDS.get(errors.name, errors.name)}] {said}"
            f"{elsewhere * (bool(errors.engines) and engine not in errors.engines)}"
        )


@dataclass(frozen=True)
class BreakEven:
    """The largest batch size at which speculation is predicted to be faster than plain decoding, as an interval.

    Attributes:
        batch: this batch size; 0 if there is none.
        low, high: the same if all speedups are lower or higher by the 80% quantile of the errors of their class; None
            if no class was validated.
        largest: the largest batch size that was considered: the models and caches fit into memory.
        validated: the largest batch size whose class was validated; 0 if there is none. Larger ones are taken to have
            the errors of this one.
    """

    batch: int
    low: int | None
    high: int | None
    largest: int
    validated: int

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise InputError(f"low and high must both be given or both be None, got {self.low} and {self.high}")
        if not 0 <= self.validated <= self.largest or (self.validated == 0) != (self.low is None):
            raise InputError(
                f"validated must be from 1 to largest={self.largest}, or 0 without low and high, got {self.validated}"
            )
        low, high = (self.batch if one is None else one for one in (self.low, self.high))
        if not 0 <= low <= self.batch <= high <= self.largest:
            raise InputError(
                f"a break-even must have 0 <= low <= batch <= high <= largest, got {low}, {self.batch}, {high} and "
                f"{self.largest}"
            )

    @property
    def in_words(self) -> str:
        """One sentence, such as `speculation pays up to batch 38 (12 to 64 with errors of this size)`.

        If the interval goes on beyond the validated batch sizes, the sentence says that it is extrapolated there.
        """
        if self.batch == 0:
            said = "speculation pays at no batch size"
        elif self.batch == self.largest:
            said = f"speculation pays up to batch {self.batch}, the largest considered"
        else:
            said = f"speculation pays up to batch {self.batch}"
        if self.low is None or self.high is None:
            return f"{said} (the error of this is unknown)"
        assumed = ""
        if self.high > self.validated:
            assumed = (
                f"; not validated above batch {self.validated}: the errors of batch {self.validated} are assumed there"
            )
        if self.low == self.high:
            return f"{said} (with errors of this size too{assumed})"
        return f"{said} ({self._end(self.low)} to {self._end(self.high)} with errors of this size{assumed})"

    def _end(self, batch: int) -> str:
        """An end of the interval in words."""
        if batch == self.largest:
            return f"above {batch}"
        return str(batch) if batch else "below 1"


@dataclass(frozen=True)
class NextMeasurement:
    """The single measurement that narrows a speedup most, by the spreads of the engine's costs.

    Attributes:
        what: what is measured, the throughput of plain decoding or of speculative decoding with the plan's tree.
        batch: the batch size at which it is measured.
        of_batch: the batch size of the speedup.
        before, after: standard deviation of the logarithm of the speedup.
    """

    what: Literal["plain decoding", "speculative decoding"]
    batch: int
    of_batch: int
    before: float
    after: float

    def __post_init__(self) -> None:
        if not (0 <= self.after <= self.before < math.inf and self.batch >= 1 and self.of_batch >= 1):
            raise InputError(
                f"a measurement must have batches of at least 1 and 0 <= after <= before, got {self.batch}, "
                f"{self.of_batch}, {self.after} and {self.before}"
            )

    @property
    def in_words(self) -> str:
        """One sentence. It has a decimal if the percentages would be the same without one."""
        digits = int(f"{self.before:.0%}" == f"{self.after:.0%}")
        return (
            f"measuring {self.what} at batch {self.batch} would reduce the uncertainty of the speedup at batch "
            f"{self.of_batch} from {self.before:.{digits}%} to {self.after:.{digits}%}: see spectheory calibrate"
        )


@dataclass(frozen=True)
class Confidence:
    """How far computed times of such a deployment were off, and what that means for a plan or a schedule.

    Attributes:
        engine: the engine, without its version.
        classes: the errors of the class of the plan, or of each class among the batch sizes of a schedule.
        break_even: up to which batch speculation pays; None if nothing is drafted.
        measurement: the measurement that would narrow the speedup most, by the spreads of the costs in the table or by
            what a calibration leaves of them; None if nothing is drafted, or if costs were given without a calibration.
    """

    engine: str
    classes: tuple[BatchClass, ...]
    break_even: BreakEven | None = None
    measurement: NextMeasurement | None = None

    def __post_init__(self) -> None:
        if not self.classes:
            raise InputError("classes must have an entry for each class of deployments, got none")

    @property
    def lines(self) -> list[str]:
        """The confidence in at most three sentences."""
        after = ", after a calibration" * self.classes[0].errors.calibrated
        errors = "; ".join(one.in_words(self.engine) for one in self.classes)
        said = [f"errors of such speedups in the validation{after} (median, 80% quantile): {errors}"]
        said += [self.break_even.in_words] if self.break_even else []
        return said + ([self.measurement.in_words] if self.measurement else [])


def require_computed(confidence: Confidence | None, latencies: Sequence[Latency]) -> None:
    """Check that there is a confidence in computed times only.

    Raises:
        InputError: there is one, but all times were measured.
    """
    if confidence is not None and not any(latency.computed for latency in latencies):
        raise InputError("confidence is for computed times, but all times were measured: leave it out")
