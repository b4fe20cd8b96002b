"""The geometric sum, which several formulas of Goose share."""

from __future__ import annotations

from typing import Any

from spectheory.core.arrays import zeros_like


def geometric_sum(ratio: Any, terms: int) -> Any:
    """1 + ratio + ... + ratio^(terms - 1), in float64 or Fraction.

    The sum is computed by doubling: (1 - ratio^terms) / (1 - ratio) loses its digits where the ratio is near 1.
    """
    total, power = zeros_like(ratio), zeros_like(ratio) + 1
    for bit in bin(terms)[2:]:
        total, power = total * (1 + power), power * power
        if bit == "1":
            total, power = 1 + ratio * total, power * ratio
    return total
