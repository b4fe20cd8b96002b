"""Sums of exponentials of rational numbers, compared without doubt.

r = (1/eta) log(sum_i exp(eta L_i)) is compared through the sums, with which it rises. Each exponential is enclosed
between two rational numbers, and the enclosures are tightened until they part. They part unless the sums are equal, and
sums with rational exponents are equal only term by term (Lindemann and Weierstrass: exponentials of distinct algebraic
numbers are linearly independent over the algebraic numbers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import floor


@cache
def enclosed(x: Fraction, terms: int) -> tuple[Fraction, Fraction]:
    """Rational numbers below and above exp(x)."""
    if x < 0:
        below, above = enclosed(-x, terms)
        return 1 / above, 1 / below
    if x >= 1:
        whole = floor(x)
        one, rest = enclosed_small(Fraction(1), terms), enclosed_small(x - whole, terms)
        return one[0] ** whole * rest[0], one[1] ** whole * rest[1]
    return enclosed_small(x, terms)


@cache
def enclosed_small(x: Fraction, terms: int) -> tuple[Fraction, Fraction]:
    """The same for 0 <= x <= 1: the first terms of the series, whose rest is at most twice the next term."""
    below, term = Fraction(0), Fraction(1)
    for k in range(1, terms + 1):
        below += term
        term *= x / k
    return below, below + 2 * term


def sign(left: Iterable[Fraction], right: Iterable[Fraction]) -> int:
    """The sign of sum exp(left) - sum exp(right)."""
    ours, theirs = Counter(left), Counter(right)
    ours, theirs = ours - theirs, theirs - ours
    if not ours and not theirs:
        return 0
    terms = 8
    while True:
        low, high = total(ours, terms), total(theirs, terms)
        if low[0] > high[1]:
            return 1
        if high[0] > low[1]:
            return -1
        terms *= 2


def total(counts: Counter[Fraction], terms: int) -> tuple[Fraction, Fraction]:
    """Rational numbers below and above the sum of exponentials."""
    parts = [(count, enclosed(x, terms)) for x, count in counts.items()]
    return (
        sum((count * part[0] for count, part in parts), Fraction(0)),
        sum((count * part[1] for count, part in parts), Fraction(0)),
    )


def times(lengths: Iterable[Fraction], eta: Fraction) -> list[Fraction]:
    """The exponents eta L_i, one per branch."""
    return [eta * length for length in lengths]
