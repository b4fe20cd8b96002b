"""What a draft lacks of the target's mass, and the coin that makes up for it: shared by Block and its relatives."""

from __future__ import annotations

from typing import Any

from spectheory.core.arrays import Vector, excess, normalised


def shortfall(weight: Any, p: Vector, q: Vector) -> tuple[Any, Vector]:
    """The mass S = sum (w p - q)+ and the distribution N((w p - q)+); p where the mass is 0."""
    rest = excess(weight * p, q)
    return rest.sum(), normalised(rest, otherwise=p)


def coin(lacking: Any, weight: Any) -> Any:
    """S / (S + 1 - w), the chance to stop at an inner node of weight w after all below it was rejected.

    It is 0/0 where w = 1 and p = q: then the next draft is accepted surely and any value gives the same distribution;
    here 1.
    """
    total = lacking + (1 - weight)  # bracketed: rounding must not lose a small S, or the coin exceeds 1
    return lacking / (total + (total == 0)) + (total == 0)
