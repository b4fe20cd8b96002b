"""`Confidence`: how far computed times of such a deployment were off in the validation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectheory.hardware.deployment_class import ENOUGH, EVERY, ClassErrors
from spectheory.hardware.engine_costs import split
from spectheory.hardware.latency import Latency


@dataclass(frozen=True)
class BatchClass:
    """The errors that the class of the batch sizes `first` to `last` had in the validation."""

    first: int
    last: int
    errors: ClassErrors

    def in_words(self, engine: str) -> str:
        """The errors of 80% of the speedups, with the sources behind them; empty if they are unknown."""
        if (found := self.errors.assumed) is None:
            return ""
        own = self.errors.speedup is not None
        batches = span(found.batches[0], found.batches[-1])
        where = f"{self.errors.name if own else EVERY}: {found.sources} source{'s' * (found.sources > 1)}"
        few = f", and {EVERY}, because these are few" * (own and found.sources < ENOUGH)
        elsewhere = f", none in {engine}" * (own and engine not in self.errors.engines)
        return f"{math.expm1(found.most):.0%} ({where} at batch {batches}{elsewhere}{few})"


@dataclass(frozen=True)
class Confidence:
    """How far computed times of such a deployment were off.

    Attributes:
        engine: the engine, without its version.
        classes: the errors of each class among the batch sizes.
    """

    engine: str
    classes: tuple[BatchClass, ...]

    def at(self, batch: int) -> BatchClass:
        """The class of a planned batch size."""
        return next((one for one in self.classes if batch <= one.last), self.classes[-1])

    @property
    def in_words(self) -> str:
        """How far published speedups of these classes, or of the nearest, were off, in one sentence."""
        known = [one for one in reversed(self.classes) if one.errors.assumed]
        first = {one.errors.assumed: one.in_words(self.engine) for one in known}
        said = reversed(first.values())
        after = ", after a calibration," * self.classes[0].errors.calibrated
        if not first:
            name = self.classes[0].errors.name
            return f"Nothing like this ({name}) was validated: measure with and without speculation (`calibrate`)."
        return f"80% of such published speedups were predicted{after} within {' and '.join(said)}."


def confidence_of(latencies: Sequence[Latency]) -> Confidence | None:
    """The confidence in the latencies that a roofline computed; None if there are none."""
    computed = [latency.inputs for latency in latencies if latency.inputs is not None]
    if not computed:
        return None
    batches: dict[ClassErrors, list[int]] = {}
    for inputs in computed:
        batches.setdefault(inputs.class_errors, []).append(inputs.place.batch)
    classes = tuple(BatchClass(sizes[0], sizes[-1], errors) for errors, sizes in batches.items())
    return Confidence(split(computed[0].engine)[0], classes)


def span(first: int, last: int) -> str:
    """A range of whole numbers in words, such as `3` or `3 to 7`."""
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def spans(batches: np.ndarray, among: np.ndarray) -> str:
    """The batch sizes at which `among` is True, such as `1, 3 to 7`."""
    return ", ".join(span(first, last) for first, last, holds in runs(batches, among) if holds)


def runs(batches: np.ndarray, values: np.ndarray) -> list[tuple[int, int, int]]:
    """(first batch, last batch, value) for each range of consecutive batches with equal values."""
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1), len(values)]
    return [(int(batches[a]), int(batches[b - 1]), int(values[a])) for a, b in itertools.pairwise(starts)]
