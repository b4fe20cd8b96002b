"""Operations on distributions that work for float64 arrays, object arrays of Fraction and torch tensors alike.

Each uses only arithmetic, comparisons and methods that all three types have. Nothing is read back from a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Shaped

from spectheory.core.errors import InputError

Vector = Shaped[Any, " V"]
"""A distribution on the vocabulary: float64, object array of Fraction, or torch tensor."""
Distributions = Shaped[Any, "nodes V"]
"""One distribution for each node: a list, an array of rows, or an object that computes row `u` when it is read."""

RandomSource = Any
"""A `numpy.random.Generator`, a `Branch`, which enumerates the outcomes, or an object with the methods in use."""

ROUNDING = 1e-12
"""A sum of float64 that is closer to 1 is taken as 1."""


def sum_tolerance(size: int, bytes_each: int = 4) -> float:
    """How far the sum of a floating-point distribution on `size` tokens may be from 1.

    The error of a softmax in float32 grows with the vocabulary: 5e-6 was seen for 49,152 tokens, 4e-5 for 262,144. The
    tolerance is 1e-5 up to 10,000 tokens and grows in proportion. A number of 16 bits, such as a bfloat16, is rounded
    by up to 2**-8 of itself, and so is the sum.
    """
    return max(1e-5 * max(1.0, size / 10_000), 2**-8 if bytes_each == 2 else 0.0)


def as_distributions(name: str, rows: Any) -> Any:
    """Distributions (*rows, V) in float64 with sums of 1; Fractions are returned unchanged.

    This is the only place where given probabilities are normalised.

    Raises:
        InputError: an entry is negative or NaN, or a sum is further from 1 than `sum_tolerance`; of Fractions, not 1.
    """
    exact, bytes_each = rows.dtype == object, rows.dtype.itemsize
    if not exact:
        rows = rows.double() if hasattr(rows, "double") else rows.astype(np.float64, copy=False)
    total, positive = rows.sum(-1), (rows >= 0).all(-1)
    off = abs(total - 1)
    if _all(positive & (off <= (0 if exact else ROUNDING))):
        return rows
    right = positive & (off <= (0 if exact else sum_tolerance(rows.shape[-1], bytes_each)))
    if _all(right):
        return rows / total[..., None]
    index = np.unravel_index(int((right * 1).argmin()), tuple(right.shape))
    place, found = "".join([name, *(f"[{i}]" for i in index)]), rows[tuple(index)]
    raise InputError(
        f"{place} must be a distribution: entries >= 0 that sum to 1, got a sum of {float(found.sum()):.6g} and a "
        f"lowest entry of {float(found.min()):.6g}; take the softmax of logits in float32, or divide weights, "
        "and numbers rounded to bfloat16, by their sum"
    )


def as_distribution(name: str, given: Vector) -> Vector:
    """One distribution (V,), see `as_distributions`. Raises InputError for another shape too."""
    if getattr(given, "ndim", None) != 1 or len(given) == 0:
        got = f"shape {tuple(given.shape)}" if hasattr(given, "shape") else f"a {type(given).__name__}"
        raise InputError(f"{name} must be one distribution of shape (V,), got {got}")
    try:
        return as_distributions(name, given)
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got the type {given.dtype}") from None


def check_tokens(drafts: Iterable[int], q: Vector) -> None:
    """Refuse an empty list of drafted tokens, and a token that is outside the vocabulary or has q = 0.

    Raises:
        InputError: the message names the token.
    """
    tokens = list(drafts)
    if not tokens:
        raise InputError("drafts must name at least one token, got none: at a leaf, draw the emitted token from p")
    for token in tokens:
        if not 0 <= token < len(q):
            raise InputError(f"drafts must be tokens between 0 and {len(q) - 1}, got {token}")
        if not q[token] > 0:
            raise InputError(
                f"drafts contain token {token}, which q gives probability 0: q must be the distribution of the draws"
            )


def zeros_like(v: Any) -> Any:
    """Zeros of the shape and number type of `v`, a vector or a number."""
    return v * 0


def copy_of(v: Any) -> Any:
    """A copy of `v`, which may be changed in place."""
    return v * 1


def zero_of(v: Vector) -> Any:
    """The number 0 in the number type of `v`, on its device."""
    return v.sum() * 0


def one_of(v: Vector) -> Any:
    """The number 1 in the number type of `v`, on its device."""
    return zero_of(v) + 1


def set_zero(v: Vector, tokens: int | list[int]) -> None:
    """Set the entry of a token, or of several, to 0 in place."""
    v[tokens] = v[tokens] * 0


def extended(v: Vector, entry: Any) -> Vector:
    """(V + 1,) `v` and one more entry at its end."""
    longer = v.new_empty(len(v) + 1) if hasattr(v, "new_empty") else np.empty(len(v) + 1, v.dtype)
    longer[:-1], longer[-1] = v, entry
    return longer


def positive_part(v: Vector) -> Vector:
    """(v)+: negative entries become 0. `clip` would put ints among Fractions, and quotients of ints are floats."""
    return v * (v > 0)


def excess(p: Vector, q: Vector, scale: Any = None) -> Vector:
    """(p - q)+, or (p - scale q)+. Only one vector is allocated, because allocating takes longer than filling."""
    difference = p - q if scale is None else q * -scale + p
    difference *= difference > 0
    return difference


def power(v: Vector, exponent: int) -> Vector:
    """Each entry of `v` to a whole exponent >= 0, by repeated squaring, which is faster than pow()."""
    if exponent == 0:
        return zeros_like(v) + 1
    result = copy_of(v)
    for bit in bin(exponent)[3:]:  # in place: allocating a vector takes longer than filling it
        result *= result
        if bit == "1":
            result *= v
    return result


def normalised(v: Vector, otherwise: Vector) -> Vector:
    """`v` divided by its sum; `otherwise` if the sum is 0."""
    total = v.sum()
    empty = total == 0
    if empty is False:  # of exact numbers, whose sums and products with 0 take long
        return v / total
    distribution = v / (total + empty)
    distribution += otherwise * empty
    return distribution


def residual(p: Vector, q: Vector) -> Vector:
    """N((p - q)+), the distribution of the correction token; p if p = q, when no correction is needed."""
    return normalised(excess(p, q), otherwise=p)


def without(q: Vector, tokens: int | list[int]) -> Vector:
    """N(q with the entries of `tokens` set to 0): q restricted to the other tokens. Zeros if q had no other token."""
    rest = copy_of(q)
    set_zero(rest, tokens)
    return normalised(rest, otherwise=rest)


def accept_ratio(p: Any, q: Any) -> Any:
    """min(1, p / q). For q = 0 it is 1 if p > 0, and 0 if p = 0: a token of p = 0 is never accepted."""
    return p * (p < q) / (q + (q == 0)) + (p >= q) * (p > 0)


def _all(found: Any) -> bool:
    """`found.all()`, which takes NumPy a microsecond for a single truth value."""
    return bool(found.all() if found.ndim else found)
