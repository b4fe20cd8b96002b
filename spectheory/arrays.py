"""The few operations on laws that hold alike for float64 arrays, object arrays of Fraction, and torch tensors.

Each is written with arithmetic and comparisons only, so that no number system is named and nothing is read back from
a device.
"""

from __future__ import annotations

from typing import Any

Vector = Any
"""A law on the vocabulary, shape (V,): float64, object array of Fraction, or torch tensor."""


def positive_part(v: Vector) -> Vector:
    """(v)+, entry by entry."""
    return v * (v > 0)


def normalised(v: Vector, otherwise: Vector) -> Vector:
    """`v` divided by its sum; `otherwise` where the sum is 0."""
    total = v.sum()
    empty = total == 0
    return v / (total + empty) + otherwise * empty


def residual(p: Vector, q: Vector) -> Vector:
    """N((p - q)+), the law of the correction token; p where p = q, a branch of probability 0."""
    return normalised(positive_part(p - q), otherwise=p)


def accept_ratio(p: Any, q: Any) -> Any:
    """min(1, p / q); for q = 0 it is 1 where p > 0 and 0 where p = 0, so that no token of p = 0 is ever accepted."""
    return p * (p < q) / (q + (q == 0)) + (p >= q) * (p > 0)
