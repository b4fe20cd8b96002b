"""Checks of what callers hand over, and one sum that several formulas share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.tree import LARGEST_TREE


def check_rate(name: str, rate: Any) -> None:
    """Refuse what is no probability: a float or a Fraction."""
    is_number = isinstance(rate, Real) and not isinstance(rate, bool)
    if not is_number or not 0 <= rate <= 1:  # pyright: ignore[reportOperatorIssue]
        raise InputError(f"{name} must be a probability between 0 and 1, got {rate!r:.80}")


def check_count(name: str, count: Any, least: int = 0, most: int = LARGEST_TREE - 1) -> None:
    """Refuse what is no whole number between `least` and `most`."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise InputError(f"{name} must be a whole number, got {count!r:.80}")
    if not least <= count <= most:
        raise InputError(f"{name} must be between {least} and {most:,}, got {count:,}")


def check_widths(widths: Sequence[int], spine_length: int) -> None:
    """Refuse what does not give the branches beside each spine token."""
    if not isinstance(widths, Sequence | np.ndarray) or isinstance(widths, str):
        raise InputError(f"widths must be a row of whole numbers, got {widths!r:.80}")
    if len(widths) != spine_length:
        raise InputError(
            f"widths must give the branches beside each of the spine_length={spine_length} spine tokens, 0 for none, "
            f"got {len(widths)} of them"
        )
    for k, width in enumerate(widths):
        check_count(f"widths[{k}]", width)


def geometric_sum(ratio: Any, terms: int) -> Any:
    """1 + ratio + ... + ratio^(terms - 1), in float64 or Fraction.

    By doubling, since (1 - ratio^terms) / (1 - ratio) loses its digits where the ratio is near 1.
    """
    total, power = ratio * 0, ratio * 0 + 1
    for bit in bin(terms)[2:]:
        total, power = total * (1 + power), power * power
        if bit == "1":
            total, power = 1 + ratio * total, power * ratio
    return total
