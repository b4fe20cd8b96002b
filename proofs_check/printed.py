"""Printed decimals as exact numbers, and whether a printed ratio can follow from others, each rounded."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

HUNDREDTH = Fraction(1, 100)
ROUNDED = HUNDREDTH / 2
"""How far a printed number of two decimals may be from the one it stands for."""


def numbers(row: str) -> list[Fraction]:
    """A row of decimals with spaces between."""
    return [Fraction(entry) for entry in row.split()]


def mean(values: Sequence[Fraction]) -> Fraction:
    """Their average."""
    return sum(values, Fraction(0)) / len(values)


def decimals(value: Fraction) -> str:
    """With two decimals, as tables have it."""
    return f"{float(value):.2f}"


def rounds_to(value: Fraction, printed: Fraction, unit: Fraction = HUNDREDTH, slack: Fraction = Fraction(0)) -> bool:
    """Whether `value`, itself uncertain by `slack`, is printed so in whole numbers of `unit`."""
    return abs(value - printed) <= unit / 2 + slack


def is_mean(values: Sequence[Fraction], printed: Fraction) -> bool:
    """Whether hundredths average to `printed`, all of them rounded."""
    return rounds_to(mean(values), printed, slack=ROUNDED)


def is_ratio(new: Fraction, old: Fraction, printed: Fraction, unit: Fraction = HUNDREDTH) -> bool:
    """Whether the ratio of two hundredths is printed so, all three rounded."""
    least, most = (new - ROUNDED) / (old + ROUNDED), (new + ROUNDED) / (old - ROUNDED)
    return least - unit / 2 <= printed <= most + unit / 2
