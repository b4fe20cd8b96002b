"""The mass of the target that a draft lacks, and the coin that supplies it: shared by several verifiers."""

from __future__ import annotations

from typing import Any

from spectheory.core.arrays import Vector, excess, normalised


def shortfall(weight: Any, p: Vector, q: Vector) -> tuple[Any, Vector]:
    """The mass S = sum (w p - q)+ and the distribution N((w p - q)+), where w = `weight`; p if S is 0."""
    rest = excess(weight * p, q)
    return rest.sum(), normalised(rest, otherwise=p)


def coin(lacking: Any, weight: Any) -> Any:
    """S / (S + 1 - w), the probability to stop at an inner node of weight w after all nodes below it were rejected.

    For w = 1 and p = q this is 0 / 0. The node below is then always accepted, so any value is correct; here it is 1.
    """
    total = lacking + (1 - weight)  # without the brackets, rounding could make the coin larger than 1
    return lacking / (total + (total == 0)) + (total == 0)
