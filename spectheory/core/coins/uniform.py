"""`Uniform`: uniform numbers, scaled and shifted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from spectheory.core.coins.coin import BranchError, Coin
from spectheory.core.coins.exponential import Exponential
from spectheory.core.coins.races import Entry, first
from spectheory.core.coins.unknown import GUARD, Unknown, is_finite, is_nan


class Uniform(Unknown):
    """scale * u + shift for a uniform number u."""

    def __init__(self, coin: Coin, scale: Fraction = Fraction(1), shift: Fraction = Fraction(0)) -> None:
        self.coin, self.scale, self.shift = coin, scale, shift

    def source(self) -> Coin:
        """See Unknown.source."""
        return self.coin

    def is_below(self, other: Any, or_equal: bool) -> bool:
        """See Unknown.is_below."""
        if isinstance(other, Unknown):
            return self._is_below_unknown(other, or_equal)
        if not is_finite(other):
            return not is_nan(other) and float(other) > 0
        gap = self.exactly(other) - self.shift
        if self.scale == 0:
            return gap > 0 or (or_equal and gap == 0)
        if self.scale > 0:
            return self.coin.below(gap / self.scale, or_equal)
        return not self.coin.below(gap / self.scale, not or_equal)

    def _is_below_unknown(self, other: Unknown, or_equal: bool) -> bool:
        if not isinstance(other, Uniform) or (other.coin is not self.coin and not self.is_like(other)):
            raise BranchError("two random numbers are compared that are not of one kind: compare each with a threshold")
        if other.coin is self.coin:
            difference = self.plus(-other)
            return difference.is_below(0, or_equal)
        return (first([self.entry(), other.entry()]) == 1) == (self.scale > 0)

    def is_like(self, other: Unknown) -> bool:
        """Whether the other number is scaled and shifted in the same way."""
        return isinstance(other, Uniform) and (self.scale, self.shift) == (other.scale, other.shift) and self.scale != 0

    def entry(self) -> Entry:
        """-log(u), for a race."""
        return self.coin.as_clock(), Fraction(1)

    def _equals(self, other: Any) -> bool:
        if isinstance(other, Unknown):
            return self.is_same(other)
        if not is_finite(other) or self.exactly(other) != self.shift:
            return False
        return self.scale == 0 or self.coin.settled_zero()

    def is_same(self, other: Unknown) -> bool:
        """See Unknown.is_same."""
        return isinstance(other, Uniform) and self.coin is other.coin and self.is_like(other)

    def times(self, factor: Fraction) -> Uniform:
        """See Unknown.times."""
        return Uniform(self.coin, self.scale * factor, self.shift * factor)

    def plus(self, other: Any) -> Uniform:
        """See Unknown.plus."""
        if isinstance(other, Uniform) and other.coin is self.coin:
            return Uniform(self.coin, self.scale + other.scale, self.shift + other.shift)
        if isinstance(other, Unknown):
            raise BranchError("two uniform numbers are combined: compare each with a threshold")
        return Uniform(self.coin, self.scale, self.shift + self.exactly(other))

    def bounded(self, bound: Any, below: bool) -> Any:
        """See Unknown.bounded."""
        if self.scale > 0 and not isinstance(bound, Unknown) and is_finite(bound):
            outside = (self.exactly(bound) - self.shift) / self.scale
            if (outside if below else 1 - outside) <= GUARD:
                if self.coin.is_zero is None and 0 < outside < 1:
                    self.coin.is_zero = False
                return self
        return self if self.is_below(bound, or_equal=False) != below else bound

    def log(self) -> Unknown:
        """See Unknown.log."""
        flipped = self.scale < 0
        low, span = (self.shift + self.scale, -self.scale) if flipped else (self.shift, self.scale)
        if span <= 0 or abs(low) > GUARD * span:
            raise BranchError("the logarithm of a shifted uniform number cannot be enumerated")
        shift = Fraction(0) if abs(span - 1) <= GUARD else self.exactly(math.log(span))
        return Exponential(self.coin.as_clock(flipped), sign=-1, shift=shift)
