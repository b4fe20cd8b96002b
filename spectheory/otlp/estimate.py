"""The acceptance of a node solver, estimated from drawn drafts, for cases in which the exact sum takes too long."""

from __future__ import annotations

from typing import Any

import numpy as np

from spectheory.core.arrays import Vector
from spectheory.core.errors import InputError
from spectheory.otlp.solver import Solver


def estimated_acceptance(
    solver: Solver, p: Vector, q: Vector, k: int, *, samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean and standard error of the probability that the emitted token is among k drafts drawn by `solver.rule`.

    The estimate is unbiased: only the drafts are drawn, and given the drafts the probability is exact. The standard
    error is 0 if this probability is the same for all drawn drafts.

    Args:
        solver: the node solver.
        p: (V,) the target's distribution.
        q: (V,) the draft's distribution.
        k: number of drafts at the node.
        samples: number of times that k drafts are drawn, at least 2.
        rng: random source of the draws.

    Raises:
        InputError: fewer than 2 samples, p or q is not a distribution, their lengths differ, or k < 1.
    """
    if samples < 2:
        raise InputError(f"samples must be at least 2 for a standard error, got {samples}")
    chances = []
    for _ in range(samples):
        drafts = solver.rule.children(q, k, rng)
        distribution: Any = solver.distribution(p, q, drafts)
        chances.append(float(sum(distribution[token] for token in set(drafts))))
    return float(np.mean(chances)), float(np.std(chances, ddof=1) / np.sqrt(samples))
