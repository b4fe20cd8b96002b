"""`confidence_of`: the confidence in computed times, with the break-even and the measurement that narrows most."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from jaxtyping import Float

from spectheory.core.tree import Tree
from spectheory.hardware.deployment_class import ClassErrors, LogErrors
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.latency import Latency
from spectheory.hardware.roofline import RooflineInputs
from spectheory.hardware.uncertainty import CostUncertainty, deviations_left, gradients
from spectheory.planning.confidence import BatchClass, BreakEven, Confidence, NextMeasurement
from spectheory.planning.schedule_checks import speeds_of

LARGEST_BATCH = 4096
"""A break-even is sought up to this batch size."""
MANY = 64
"""A batch size at which plain decoding is easily measured."""


@dataclass(frozen=True)
class Drafted:
    """Trees that speculation may verify, each with its tau and verifier, and the context."""

    trees: tuple[Tree, ...]
    tau: tuple[float, ...]
    verifiers: tuple[str | None, ...]
    context: int

    @classmethod
    def of(cls, trees: Sequence[Tree], tau: Sequence[float], verifiers: Sequence[str | None], context: int) -> Drafted:
        """Those among `trees` that have drafted nodes."""
        rows = [row for row in zip(trees, map(float, tau), verifiers, strict=True) if row[0].budget]
        return cls(tuple(row[0] for row in rows), tuple(row[1] for row in rows), tuple(row[2] for row in rows), context)

    def speedups(self, latencies: Sequence[Latency]) -> Float[np.ndarray, "batches trees"]:
        """Predicted speedup of each tree at each latency."""
        speeds = speeds_of(self.trees, np.array(self.tau), self.verifiers, latencies, self.context)
        return speeds * np.array([[latency.plain(self.context)] for latency in latencies])

    def fastest(self, latency: Latency) -> Drafted:
        """The fastest tree alone."""
        best = int(self.speedups([latency]).argmax())
        return Drafted((self.trees[best],), (self.tau[best],), (self.verifiers[best],), self.context)

    def cycle(self, latency: Latency) -> float:
        """Seconds of a cycle of the first tree, with the prompts of new requests."""
        return latency.cycle(self.trees[0], self.context, self.verifiers[0]) + float(latency.prompts(self.tau[0]))


def confidence_of(latencies: Sequence[Latency], drafted: Drafted) -> Confidence | None:
    """The confidence in the latencies that a roofline computed; None if there are none.

    The measurement narrows the speedup at the batch size where the speedup is nearest to 1.
    """
    computed = [(latency, latency.inputs) for latency in latencies if latency.inputs is not None]
    if not computed:
        return None
    inputs = computed[0][1]
    classes = _classes([one for _, one in computed])
    if not drafted.trees:
        return Confidence(inputs.engine_name, classes)
    speedups = drafted.speedups([latency for latency, _ in computed]).max(1)
    latency, at = computed[int(np.abs(np.log(speedups)).argmin())]
    measurement = None
    if (uncertainty := inputs.cost_uncertainty) is not None:
        measurement = _measurement(latency, at, drafted.fastest(latency), uncertainty)
    return Confidence(inputs.engine_name, classes, _break_even(*computed[0], drafted), measurement)


def without_inputs(latencies: Sequence[Latency]) -> tuple[Latency, ...]:
    """The latencies for a schedule: it has their confidence, and the inputs of each would double its file."""
    return tuple(replace(latency, inputs=None) for latency in latencies)


def _classes(inputs: Sequence[RooflineInputs]) -> tuple[BatchClass, ...]:
    """The classes, with their first and last batch size."""
    batches: dict[ClassErrors, list[int]] = {}
    for one in inputs:
        batches.setdefault(one.class_errors, []).append(one.place.batch)
    return tuple(BatchClass(sizes[0], sizes[-1], errors) for errors, sizes in batches.items())


def _break_even(latency: Latency, inputs: RooflineInputs, drafted: Drafted) -> BreakEven:
    """The largest batch size that pays, and its interval, at other batch sizes of the same deployment.

    A batch size whose class was not validated is taken to have the errors of the largest one that was.
    """
    largest = inputs.largest_batch(LARGEST_BATCH)

    @cache
    def logarithm(batch: int) -> float:
        return math.log(drafted.speedups([_recomputed(latency, inputs.at(batch))]).max())

    @cache
    def judged(batch: int) -> LogErrors | None:
        return inputs.at(batch).class_errors.speedup

    batch = last_positive(logarithm, largest)
    validated = last_positive(lambda size: -1.0 if judged(size) is None else 1.0, largest)
    nearest = judged(validated) if validated else None
    if nearest is None:
        return BreakEven(batch, None, None, largest, 0)

    def error(size: int) -> float:
        return (judged(size) or nearest).most

    low, high = (last_positive(lambda size, by=by: logarithm(size) + by * error(size), largest) for by in (-1, 1))
    return BreakEven(batch, low, high, largest, validated)


def _recomputed(latency: Latency, inputs: RooflineInputs) -> Latency:
    """The seconds of the same numbers of tokens by other inputs, which are left out to save the time of their check."""
    stamp = latency.provenance.replace(batch=inputs.place.batch)
    return replace(latency, **inputs.seconds(latency.tokens.tolist()), provenance=stamp, inputs=None)


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


def _measurement(
    latency: Latency, inputs: RooflineInputs, drafted: Drafted, uncertainty: CostUncertainty
) -> NextMeasurement | None:
    """The measurement that leaves the least uncertainty of the speedup of a tree."""
    of_batch = inputs.place.batch
    plain = [batch for batch in sorted({1, of_batch, MANY}) if inputs.at(batch).fits]
    speculative = sorted({1, of_batch})

    def logarithms(costs: EngineCosts) -> np.ndarray:
        at = {batch: _recomputed(latency, inputs.at(batch).with_costs(costs)) for batch in {*plain, *speculative}}
        plain_seconds = [at[batch].plain(drafted.context) for batch in plain]
        cycles = [drafted.cycle(at[batch]) for batch in speculative]
        speedup = at[of_batch].plain(drafted.context) / drafted.cycle(at[of_batch])
        return np.log([speedup, *plain_seconds, *cycles])

    found = gradients(logarithms, inputs.place.costs, uncertainty.spreads)
    if not found.size:
        return None
    before, after = deviations_left(found[:, 0], found[:, 1:], uncertainty.covariance)
    best = int(after.argmin())
    what = "plain decoding" if best < len(plain) else "speculative decoding"
    return NextMeasurement(what, [*plain, *speculative][best], of_batch, before, float(after[best]))
