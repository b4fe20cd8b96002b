"""`Exponential`: exponential numbers, their powers and logarithms, such as Gumbel numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from spectheory.core.coins.coin import BranchError, Clock, Coin
from spectheory.core.coins.races import SAME, Entry, first
from spectheory.core.coins.unknown import GUARD, Unknown, is_finite, is_nan


class Exponential(Unknown):
    """sign * (scale * E) ** power + shift, or power * log(scale * E), for an exponential number E of mean 1."""

    def __init__(
        self,
        clock: Clock,
        scale: Fraction = Fraction(1),
        power: Fraction = Fraction(1),
        sign: int = 1,
        shift: Fraction = Fraction(0),
        is_log: bool = False,
    ) -> None:
        self.clock, self.scale, self.power, self.is_log = clock, scale, power, is_log
        self.direction, self.shift = sign, shift

    def source(self) -> Coin:
        """See Unknown.source."""
        return self.clock.coin

    @property
    def increases(self) -> bool:
        """Whether the value grows with E."""
        return (self.power > 0) == (self.direction > 0)

    def is_like(self, other: Unknown) -> bool:
        """Whether the other number is the same function of E, up to `scale`."""
        if not isinstance(other, Exponential) or self.is_log != other.is_log or self.direction != other.direction:
            return False
        return abs(self.power / other.power - 1) <= SAME and abs(self.shift - other.shift) <= GUARD

    def is_same(self, other: Unknown) -> bool:
        """See Unknown.is_same."""
        if not isinstance(other, Exponential) or self.clock is not other.clock:
            return False
        return self.is_like(other) and abs(self.scale / other.scale - 1) <= SAME

    def entry(self) -> Entry:
        """The number scale * E, for a race."""
        return self.clock, self.scale

    def is_below(self, other: Any, or_equal: bool) -> bool:
        """See Unknown.is_below."""
        if isinstance(other, Unknown):
            return self._is_below_unknown(other, or_equal)
        if not is_finite(other):
            return not is_nan(other) and float(other) > 0
        if self.is_log:
            edge = _exponential(float(other) / float(self.power))
        else:
            edge = float(self.exactly(other) - self.shift) * self.direction
            if edge <= 0:
                return self.direction < 0
            edge = edge ** float(1 / self.power)
        return self.clock.is_below(edge / float(self.scale)) == self.increases

    def _is_below_unknown(self, other: Unknown, or_equal: bool) -> bool:
        if not isinstance(other, Exponential) or not self.is_like(other):
            raise BranchError("two random numbers are compared that are not of one kind: compare each with a threshold")
        if self.is_same(other):
            return or_equal
        if other.clock is self.clock:
            return (self.scale < other.scale) == self.increases
        return (first([self.entry(), other.entry()]) == 0) == self.increases

    def _equals(self, other: Any) -> bool:
        return isinstance(other, Unknown) and self.is_same(other)

    def times(self, factor: Fraction) -> Exponential:
        """See Unknown.times."""
        if self.is_log:
            return self._with(power=self.power * factor)
        scale, sign = self.scale * self._power(abs(factor), 1 / self.power), self.direction * (1 if factor > 0 else -1)
        return self._with(scale=scale, direction=sign, shift=self.shift * factor)

    def plus(self, other: Any) -> Any:
        """See Unknown.plus."""
        if isinstance(other, Unknown):
            raise BranchError("two random numbers are added: compare each with a threshold")
        if self.is_log:
            factor = _exponential(float(other) / float(self.power))
            return self._with(scale=self.scale * self.exactly(factor)) if 0 < factor < math.inf else float(other)
        return self._with(shift=self.shift + self.exactly(other))

    def _reciprocal(self) -> Exponential:
        return self._unshifted("the reciprocal")._with(power=-self.power)

    def __pow__(self, power: Any) -> Exponential:
        return self._unshifted("a power")._with(power=self.power * self.exactly(power))

    def log(self) -> Exponential:
        """See Unknown.log."""
        return self._unshifted("the logarithm")._with(is_log=True)

    def exp(self) -> Unknown:
        """The exponential function of the number."""
        if self.is_log:
            return self._with(is_log=False)
        from spectheory.core.coins.uniform import Uniform

        if (self.scale, self.power, self.direction, self.shift) == (1, 1, -1, 0):
            return Uniform(self.clock.coin, *((Fraction(-1), Fraction(1)) if self.clock.flipped else ()))
        raise BranchError("the exponential function of a random number cannot be enumerated")

    def bounded(self, bound: Any, below: bool) -> Any:
        """See Unknown.bounded."""
        plain = not self.is_log and self.direction * self.power == 1
        if (
            below
            and plain
            and not isinstance(bound, Unknown)
            and self.exactly(bound) - self.shift <= GUARD * self.scale
        ):
            return self
        return self if self.is_below(bound, or_equal=False) != below else bound

    def _unshifted(self, what: str) -> Exponential:
        if self.is_log or self.direction < 0 or abs(self.shift) > GUARD:
            raise BranchError(f"{what} of a shifted or negative random number cannot be enumerated")
        return self._with(shift=Fraction(0))

    def _power(self, base: Fraction, power: Fraction) -> Fraction:
        """The power base ** power, exact for powers of 1 and -1."""
        if abs(power) == 1:
            return base if power == 1 else 1 / base
        return self.exactly(float(base) ** float(power))

    def _with(self, **changed: Any) -> Exponential:
        new = object.__new__(Exponential)
        vars(new).update({**vars(self), **changed})
        return new


def _exponential(power: float) -> float:
    try:
        return math.exp(power)
    except OverflowError:
        return math.inf
