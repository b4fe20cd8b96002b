"""The few operations on distributions that hold alike for float64 arrays, object arrays of Fraction, and torch tensors.

Each is written with arithmetic, comparisons and methods that all three share, so that no number system is named and
nothing is read back from a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spectheory.core.errors import InputError

Vector = Any
"""A distribution on the vocabulary, shape (V,): float64, object array of Fraction, or torch tensor."""

SUM_TOLERANCE = 1e-5
"""How far the sum of a floating-point distribution may be from 1: float32 softmax over a large vocabulary stays well
inside.
"""


def check_distribution(name: str, distribution: Vector) -> None:
    """Refuse what is not a distribution on a vocabulary.

    Raises:
        InputError: not one-dimensional, an entry that is negative or NaN, or a sum that is not 1 (exactly, for
            Fractions).
    """
    if getattr(distribution, "ndim", None) != 1 or len(distribution) == 0:
        raise InputError(f"{name} must be one distribution of shape (V,), got {_shape(distribution)}")
    lowest, total = distribution.min(), distribution.sum()
    exact = distribution.dtype == object
    if not (lowest >= 0 and abs(total - 1) <= (0 if exact else SUM_TOLERANCE)):
        raise InputError(
            f"{name} must be a distribution: entries >= 0 that sum to 1, got a sum of {_shown(total)} and a lowest "
            f"entry of {_shown(lowest)}; softmax logits, and divide weights by their sum"
        )


def check_tokens(drafts: Iterable[int], q: Vector) -> None:
    """Refuse drafts that are empty, outside the vocabulary, or that q never draws.

    Raises:
        InputError: as said, naming the token.
    """
    tokens = list(drafts)
    if not tokens:
        raise InputError(
            "drafts must name at least one token, got none: at a leaf the emitted token has distribution p"
        )
    for token in tokens:
        if not 0 <= token < len(q):
            raise InputError(f"drafts must be tokens between 0 and {len(q) - 1}, got {token}")
        if not q[token] > 0:
            raise InputError(
                f"drafts contain token {token}, which q gives probability 0: q must be the distribution drawn from"
            )


def zeros_like(v: Any) -> Any:
    """Zeros of the shape and number system of `v`, a vector or a number."""
    return v * 0


def copy_of(v: Any) -> Any:
    """A copy of `v`, which may be changed in place."""
    return v * 1


def zero_of(v: Vector) -> Any:
    """The number 0 in the number system of `v`, on its device."""
    return v.sum() * 0


def one_of(v: Vector) -> Any:
    """The number 1 in the number system of `v`, on its device."""
    return zero_of(v) + 1


def set_zero(v: Vector, tokens: int | list[int]) -> None:
    """Set the entry of a token, or of several, to 0 in place."""
    v[tokens] = v[tokens] * 0


def positive_part(v: Vector) -> Vector:
    """(v)+, entry by entry; not by clip, which puts whole numbers among Fractions, whose quotients are floats."""
    return v * (v > 0)


def excess(p: Vector, q: Vector, scale: Any = None) -> Vector:
    """(p - q)+, or (p - scale q)+, in one new vector: large ones take longer to allocate than to fill."""
    difference = p - q if scale is None else q * -scale + p
    difference *= difference > 0
    return difference


def power(v: Vector, exponent: int) -> Vector:
    """`v` to a power, entry by entry for a whole exponent >= 0, by squaring: a few passes where pow() takes many."""
    if exponent == 0:
        return zeros_like(v) + 1
    result = copy_of(v)
    for bit in bin(exponent)[3:]:  # in place: a new vector takes longer to allocate than to fill
        result *= result
        if bit == "1":
            result *= v
    return result


def normalised(v: Vector, otherwise: Vector) -> Vector:
    """`v` divided by its sum; `otherwise` where the sum is 0."""
    total = v.sum()
    empty = total == 0
    distribution = v / (total + empty)
    distribution += otherwise * empty
    return distribution


def residual(p: Vector, q: Vector) -> Vector:
    """N((p - q)+), the distribution of the correction token; p where p = q, a branch of probability 0."""
    return normalised(excess(p, q), otherwise=p)


def without(q: Vector, token: int) -> Vector:
    """Q restricted to the other tokens, N(q with entry `token` set to 0); all zeros where nothing else is left."""
    rest = copy_of(q)
    set_zero(rest, token)
    return normalised(rest, otherwise=rest)


def accept_ratio(p: Any, q: Any) -> Any:
    """min(1, p / q); for q = 0 it is 1 where p > 0 and 0 where p = 0, so that no token of p = 0 is ever accepted."""
    return p * (p < q) / (q + (q == 0)) + (p >= q) * (p > 0)


def _shape(distribution: Any) -> str:
    return (
        f"shape {tuple(distribution.shape)}" if hasattr(distribution, "shape") else f"a {type(distribution).__name__}"
    )


def _shown(number: Any) -> str:
    return f"{float(number):.6g}"
