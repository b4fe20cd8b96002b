"""What is known of a random number: `Coin`, a uniform number in an interval, and `Clock`, an exponential one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np


class BranchError(Exception):
    """The program draws, or uses what it drew, in a way that cannot be enumerated."""


class Source(Protocol):
    """What a random number asks for the outcome of a comparison.

    Attributes:
        drawn: what was drawn so far, in order; each coin adds itself.
        is_rounded: whether a float took part in a comparison or in a draw.
    """

    drawn: list[Any]
    is_rounded: bool

    def fork(self, weights: Sequence[Any]) -> int:
        """The index of the outcome, with probabilities proportional to `weights`."""
        ...


EXACT = int, Fraction, np.integer
"""Types of numbers that are never rounded."""


def is_float(number: Any) -> bool:
    """Whether a number may be rounded, as all but whole numbers and fractions are."""
    return not isinstance(number, EXACT)


def exact(number: Any) -> Fraction:
    """A finite number as a fraction."""
    return number if isinstance(number, Fraction) else Fraction(number.item() if hasattr(number, "item") else number)


class Coin:
    """A uniform number, of which it is known only that it is 0 or that it is in the open interval (low, high).

    Attributes:
        is_zero: whether the number is exactly 0; None as long as nothing depends on it.
        clock: the exponential number -log(u) or -log(1 - u); None if there is none yet.
    """

    def __init__(self, branch: Source) -> None:
        self.branch = branch
        self.low, self.high = Fraction(0), Fraction(1)
        self.is_zero: bool | None = None
        self.clock: Clock | None = None
        branch.drawn.append(self)

    def settled_zero(self) -> bool:
        """Whether the number is exactly 0. The first call draws this."""
        if self.is_zero is None:
            self.is_zero = self.branch.fork([1, 0]) == 1
        return self.is_zero

    def below(self, threshold: Fraction, or_equal: bool) -> bool:
        """Whether the number is < threshold, or <= threshold. If this is not known yet, the call draws it."""
        if threshold == 0:
            return or_equal and self.settled_zero()
        if self.is_zero or threshold <= self.low or threshold >= self.high:
            return threshold > 0 if self.is_zero else threshold >= self.high
        if self.clock and self.clock.scale:
            raise BranchError("a random number is compared with others, and then with a threshold")
        is_below = self.branch.fork([threshold - self.low, self.high - threshold]) == 0
        if is_below:
            self.high = threshold
        else:
            self.low, self.is_zero = threshold, False
        return is_below

    def as_clock(self, flipped: bool = False) -> Clock:
        """The exponential number -log(u), or -log(1 - u) if `flipped`; only one of them can be used."""
        self.clock = self.clock or Clock(self, flipped)
        if self.clock.flipped != flipped:
            raise BranchError("the logarithms of a uniform number and of 1 minus it are both used")
        return self.clock


class Clock:
    """An exponential number of mean 1, E = -log(u) or -log(1 - u), and its place in the order of those compared so far.

    Of numbers E * scale in a race, one that lost is below the one that it lost to. Given the winner, the excess of
    each loser is exponential again, independent of the others, and smallest in a group of its own with rate `weight`.
    """

    def __init__(self, coin: Coin, flipped: bool = False) -> None:
        self.coin, self.flipped = coin, flipped
        self.scale: Fraction | None = None
        self.weight = Fraction(0)
        self.lost_to: Clock | None = None

    def is_below(self, threshold: float) -> bool:
        """Whether the number is < threshold, which is at least 0."""
        left = math.exp(-threshold)
        if threshold == 0 or left == 0:
            return left == 0
        self.coin.branch.is_rounded = True
        if self.flipped:
            return self.coin.below(exact(-math.expm1(-threshold)), or_equal=False)
        return not self.coin.below(exact(left), or_equal=True)

    def path(self) -> list[Clock]:
        """The numbers from the winner of the whole race to this one."""
        return [*(self.lost_to.path() if self.lost_to else []), self]

    def enter(self, scale: Fraction) -> None:
        """Take part in a race as E * scale.

        Raises:
            BranchError: the number was compared with a threshold before.
        """
        if self.scale is None:
            if self.coin.low > 0 or self.coin.high < 1 or self.coin.is_zero:
                raise BranchError("a random number is compared with a threshold, and then with others")
            self.scale, self.weight = scale, 1 / scale
