"""`Confidence`: how far computed times of such a deployment were off, and what that means for a schedule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from spectheory.hardware.deployment_class import IN_WORDS, ClassErrors, LogErrors
from spectheory.hardware.engine_costs import split
from spectheory.hardware.latency import Latency
from spectheory.hardware.roofline import RooflineInputs

LARGEST_BATCH = 4096
"""A break-even is sought up to this batch size."""


@dataclass(frozen=True)
class BatchClass:
    """The errors that the class of the batch sizes `first` to `last` had in the validation.

    `nearest` has the errors of speedups of the nearest smaller batch size with any, where the class has none.
    """

    first: int
    last: int
    errors: ClassErrors
    nearest: LogErrors | None = None

    @property
    def assumed(self) -> LogErrors | None:
        """The errors of speedups that the class has, or that are assumed for it; None if they are unknown."""
        return self.errors.speedup or self.nearest

    def judged(self, batch: int) -> bool:
        """Whether speedups of the class were judged at this batch size."""
        return self.errors.speedup is not None and self.errors.speedup.judged(batch)

    def in_words(self, engine: str) -> str:
        """The batch sizes, the class and its errors."""
        errors, said = self.errors, "not validated"
        if errors.speedup is not None:
            said = errors.speedup.in_words
        elif errors.plain is not None:
            said += f", except plain steps: {errors.plain.in_words}"
        if errors.engines and engine not in errors.engines:
            said += f", none of them in {engine}"
        return f"batch {span(self.first, self.last)} [{IN_WORDS.get(errors.name, errors.name)}] {said}"


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

    @property
    def in_words(self) -> str:
        """One sentence, such as `speculation pays up to batch 38 (12 to 64 with errors of this size)`."""
        said = f"speculation pays up to batch {self.batch}{', the largest considered' * (self.batch == self.largest)}"
        if self.batch == 0:
            said = "speculation pays at no batch size"
        if self.low is None or self.high is None:
            return f"{said} (the error of this is unknown)"
        of_this, last = "with errors of this size", self.validated
        assumed = f"; not validated above batch {last}: the errors of batch {last} are assumed there"
        assumed *= self.high > last
        if self.low == self.high:
            return f"{said} ({of_this} too{assumed})"
        low, high = (
            f"above {end}" if end == self.largest else str(end) if end else "below 1" for end in (self.low, self.high)
        )
        return f"{said} ({low} to {high} {of_this}{assumed})"


@dataclass(frozen=True)
class Confidence:
    """How far computed times of such a deployment were off, and what that means for a schedule.

    Attributes:
        engine: the engine, without its version.
        classes: the errors of each class among the batch sizes.
        break_even: up to which batch speculation pays; None if nothing is drafted.
    """

    engine: str
    classes: tuple[BatchClass, ...]
    break_even: BreakEven | None = None

    def at(self, batch: int) -> BatchClass:
        """The class of a planned batch size."""
        return next((one for one in self.classes if batch <= one.last), self.classes[-1])

    @property
    def off_by(self) -> str:
        """How far published speedups of these classes, or of the nearest, were off, in one sentence."""
        said: dict[str, None] = {}
        for one in self.classes:
            if (errors := one.assumed) is not None:
                name = f"{one.errors.name}: " * (one.errors.speedup is not None)
                other = f", none in {self.engine}" * bool(name and self.engine not in one.errors.engines)
                where = f"{name}{errors.rows} rows at batch {span(errors.batches[0], errors.batches[-1])}{other}"
                said[f"{math.expm1(errors.most):.0%} ({where})"] = None
        if not said:
            return "Nothing like this was validated."
        return f"80% of such published speedups were predicted within {' and '.join(said)}."

    @property
    def lines(self) -> list[str]:
        """The confidence in at most two sentences."""
        after = ", after a calibration" * self.classes[0].errors.calibrated
        errors = "; ".join(one.in_words(self.engine) for one in self.classes)
        said = [f"errors of such speedups in the validation{after} (median, 80% quantile): {errors}"]
        return [*said, *([self.break_even.in_words] if self.break_even else [])]


def confidence_of(latencies: Sequence[Latency], speedup: Callable[[Latency], float] | None) -> Confidence | None:
    """The confidence in the latencies that a roofline computed; None if there are none.

    `speedup` is the highest speedup of the trees that speculation may verify; None if there are none.
    """
    computed = [(latency, latency.inputs) for latency in latencies if latency.inputs is not None]
    if not computed:
        return None
    batches: dict[ClassErrors, list[int]] = {}
    for _, inputs in computed:
        batches.setdefault(inputs.class_errors, []).append(inputs.place.batch)
    latency, inputs = computed[0]
    classes = tuple(
        BatchClass(sizes[0], sizes[-1], errors, None if errors.speedup else _nearest(inputs, sizes[0]))
        for errors, sizes in batches.items()
    )
    break_even = None if speedup is None else _break_even(latency, inputs, speedup)
    return Confidence(split(inputs.engine)[0], classes, break_even)


def _last_judged(inputs: RooflineInputs, largest: int) -> int:
    """The largest batch size up to `largest` at which speedups were judged in the validation; 0 if there is none."""

    def judged(batch: int) -> float:
        errors = inputs.at(batch).class_errors.speedup
        return 1.0 if errors is not None and errors.judged(batch) else -1.0

    return last_positive(judged, largest)


def _nearest(inputs: RooflineInputs, batch: int) -> LogErrors | None:
    """The errors of speedups at the last judged batch size up to `batch`."""
    judged = _last_judged(inputs, batch)
    return inputs.at(judged).class_errors.speedup if judged else None


def _break_even(latency: Latency, inputs: RooflineInputs, speedup: Callable[[Latency], float]) -> BreakEven:
    """The largest batch size that pays, and its interval, at other batch sizes of the same deployment.

    A batch size whose class has no errors is taken to have the errors of the largest one that was judged.
    """
    largest = inputs.largest_batch(LARGEST_BATCH)

    @cache
    def logarithm(batch: int) -> float:
        at, stamp = inputs.at(batch), latency.provenance.replace(batch=batch)
        seconds = at.seconds(latency.tokens.tolist())
        return math.log(speedup(replace(latency, **seconds, provenance=stamp, inputs=None)))  # inputs cost a check

    @cache
    def errors(batch: int) -> LogErrors | None:
        return inputs.at(batch).class_errors.speedup

    batch = last_positive(logarithm, largest)
    validated = _last_judged(inputs, largest)
    nearest = errors(validated) if validated else None
    if nearest is None:
        return BreakEven(batch, None, None, largest, 0)
    low, high = (
        last_positive(lambda size, by=by: logarithm(size) + by * (errors(size) or nearest).most, largest)
        for by in (-1, 1)
    )
    return BreakEven(batch, low, high, largest, validated)


def last_positive(function: Callable[[int], float], largest: int) -> int:
    """The largest batch size up to `largest` at which a function is above 0; 0 if there is none.

    It is sought at 1, 2, 4, ..., `largest`, and by bisection after the last of these where the function is above 0.
    """
    sizes = [*(2**power for power in range(largest.bit_length()) if 2**power < largest), largest]
    positive = [place for place, size in enumerate(sizes) if function(size) > 0]
    if not positive or sizes[positive[-1]] == largest:
        return largest if positive else 0
    low, high = sizes[positive[-1]], sizes[positive[-1] + 1]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low


def span(first: int, last: int) -> str:
    """A range of batch sizes in words, such as `3` or `3 to 7`."""
    return f"{first}" if first == last else f"{first} to {last}"


def spans(batches: np.ndarray, among: np.ndarray) -> str:
    """The batch sizes at which `among` is True, such as `1, 3 to 7`."""
    return ", ".join(span(first, last) for first, last, holds in runs(batches, among) if holds)


def runs(batches: np.ndarray, values: np.ndarray) -> list[tuple[int, int, int]]:
    """(first batch, last batch, value) for each range of consecutive batches with equal values."""
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1), len(values)]
    return [(int(batches[a]), int(batches[b - 1]), int(values[a])) for a, b in itertools.pairwise(starts)]
