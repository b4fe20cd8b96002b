"""Random numbers that have no value until a comparison settles them: uniform numbers, and exponential ones that race.

A comparison with a threshold is a draw with two outcomes, and narrows the interval that contains the uniform number.
Exponential numbers of mean 1 are -log(u). The smallest of several, each divided by its weight, is the i-th one with a
probability proportional to the i-th weight, and the others begin anew from there: so p / E, -log(E) + log(p) (Gumbel)
and all that is monotone in E / p is settled by draws with given weights, and their order is a draw without replacement.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np


class BranchError(Exception):
    """The program draws, or uses what it drew, in a way that cannot be enumerated.

    Attributes:
        latest: the last one that was made, so that it is known even if the program caught it.
    """

    latest: BranchError | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        BranchError.latest = self


EXACT = int, Fraction, np.integer
"""Types of numbers that are never rounded."""


def is_float(number: Any) -> bool:
    """Whether a number may be rounded, as all but whole numbers and fractions are."""
    return not isinstance(number, EXACT)


def exact(number: Any) -> Fraction:
    """A finite number as a fraction."""
    return number if isinstance(number, Fraction) else Fraction(number.item() if hasattr(number, "item") else number)


class Coin:
    """A uniform number u, of which it is known only that it is 0 or that it is in the open interval (low, high).

    It can be used as the exponential number E = -log(u) or -log(1 - u) of mean 1, which has a place in the order of
    those compared so far. Of numbers E * scale in a race, one that lost is below the one that it lost to. Given the
    winner, the excess of each loser is exponential again, independent of the others, and smallest in a group of its own
    with rate `weight`.

    Attributes:
        branch: the `Branch` that draws the outcomes of comparisons.
        grid: u is a multiple of 1 / grid, rounded down; None for a real number.
        is_zero: whether u is exactly 0; None as long as nothing depends on it.
        flipped: whether the exponential number is -log(1 - u); None as long as none is used.
    """

    def __init__(self, branch: Any, grid: int | None = None) -> None:
        self.branch, self.grid = branch, grid
        self.low, self.high = Fraction(0), Fraction(1)
        self.is_zero: bool | None = None
        self.flipped: bool | None = None
        self.scale: Fraction | None = None
        self.weight = Fraction(0)
        self.lost_to: Coin | None = None
        branch.drawn.append(self)

    def settled_zero(self) -> bool:
        """Whether u is exactly 0. The first call draws this."""
        if self.grid:
            return self.below(Fraction(0), or_equal=True)
        if self.is_zero is None:
            self.is_zero = self.branch.fork([1, 0]) == 1
        return self.is_zero

    def below(self, threshold: Fraction, or_equal: bool) -> bool:
        """Whether u is < threshold, or <= threshold. If this is not known yet, the call draws it."""
        if self.grid:
            steps = math.floor(threshold * self.grid) + 1 if or_equal else math.ceil(threshold * self.grid)
            threshold, or_equal = Fraction(steps, self.grid), False
        if threshold == 0:
            return or_equal and self.settled_zero()
        if self.is_zero or threshold <= self.low or threshold >= self.high:
            return threshold > 0 if self.is_zero else threshold >= self.high
        if self.scale:
            raise BranchError("a random number is compared with others, and then with a threshold")
        is_below = self.branch.fork([threshold - self.low, self.high - threshold]) == 0
        if is_below:
            self.high = threshold
        else:
            self.low, self.is_zero = threshold, False
        return is_below

    def as_exponential(self, flipped: bool) -> Coin:
        """Use -log(u), or -log(1 - u) if `flipped`; only one of them can be used."""
        if self.grid:
            raise BranchError(f"a logarithm of one of {self.grid} uniform numbers: use a larger number type")
        self.flipped = flipped if self.flipped is None else self.flipped
        if self.flipped != flipped:
            raise BranchError("the logarithms of a uniform number and of 1 minus it are both used")
        return self

    def exponential_below(self, threshold: float) -> bool:
        """Whether E is < threshold, which is at least 0."""
        left = math.exp(-threshold)
        if threshold == 0 or left == 0:
            return left == 0
        self.branch.is_rounded = True
        if self.flipped:
            return self.below(exact(-math.expm1(-threshold)), or_equal=False)
        return not self.below(exact(left), or_equal=True)

    def path(self) -> list[Coin]:
        """The numbers from the winner of the whole race to this one."""
        return [*(self.lost_to.path() if self.lost_to else []), self]

    def enter(self, scale: Fraction) -> None:
        """Take part in a race as E * scale. Raises BranchError if u was compared with a threshold before."""
        if self.scale is None:
            if self.low > 0 or self.high < 1 or self.is_zero:
                raise BranchError("a random number is compared with a threshold, and then with others")
            self.scale, self.weight = scale, 1 / scale


SAME = 1e-6
"""Two weights of one exponential number may differ by this share, because of rounding."""

Entry = tuple[Coin, Fraction]
"""A number E * scale in a race."""


def _meet(group: Sequence[Coin]) -> int:
    """The index of the smallest of numbers that lost to the same one, or to none. The others lose to it."""
    if len(group) == 1:
        return 0
    first = group[0].branch.fork([coin.weight for coin in group])
    for coin in group:
        if coin is not group[first]:
            coin.lost_to = group[first]
            group[first].weight += coin.weight
    return first


def _is_first(one: Coin, other: Coin) -> bool:
    """Whether `one` is smaller than `other`, both in the race."""
    while True:
        ours, theirs = one.path(), other.path()
        shared = sum(1 for a, b in zip(ours, theirs, strict=False) if a is b)
        if shared in (len(ours), len(theirs)):
            return shared == len(ours)
        _meet([ours[shared], theirs[shared]])


def first(entries: Sequence[Entry]) -> int:
    """The index of the smallest of different numbers E * scale, which take part in one race, up to a common factor.

    Raises:
        BranchError: two of them were compared before with another quotient of their scales.
    """
    factors = [coin.scale / scale for coin, scale in entries if coin.scale is not None]
    factor = factors[0] if factors else Fraction(1)
    if any(abs(other / factor - 1) > SAME for other in factors):
        raise BranchError("random numbers that were compared are compared again, with other weights")
    for coin, scale in entries:
        coin.enter(scale * factor)
    coins = [coin for coin, _ in entries]
    leading = [coin for coin in coins if not any(above in coins for above in coin.path()[:-1])]
    if len({id(coin.lost_to) for coin in leading}) == 1:
        return coins.index(leading[_meet(leading)])
    best = 0
    for i, coin in enumerate(coins):
        if i and _is_first(coin, coins[best]):
            best = i
    return best


GUARD = Fraction(1, 10**7)
"""A number up to this that is added to a random number before a logarithm, or bounds one, counts as rounding."""


class Unknown(ABC):
    """A random number without a value, a function of `coin`. It can be compared, and used in the arithmetic it has."""

    coin: Coin
    __hash__ = None  # type: ignore[assignment]

    def exactly(self, number: Any) -> Fraction:
        """The fraction that is equal to a finite number. A float sets `is_rounded` of the branch."""
        if is_float(number):
            self.coin.branch.is_rounded = True
        return exact(number)

    def is_below(self, other: Any, or_equal: bool) -> bool:
        """Whether this is < or <= a number, which may be without a value too."""
        if not isinstance(other, Unknown):
            return self._below_number(other, or_equal) if is_finite(other) else not is_nan(other) and float(other) > 0
        if not self.is_like(other):
            raise BranchError("two random numbers are compared that are not of one kind: compare each with a threshold")
        if self.is_same(other):
            return or_equal
        return (first([self.entry(), other.entry()]) == 0) == self.increases

    @abstractmethod
    def _below_number(self, other: Any, or_equal: bool) -> bool:
        """Whether this is < or <= a finite number."""

    @abstractmethod
    def is_like(self, other: Unknown) -> bool:
        """Whether the other is the same function of its exponential number, up to a factor of that number."""

    @abstractmethod
    def is_same(self, other: Unknown) -> bool:
        """Whether the other is certain to have the same value."""

    @abstractmethod
    def entry(self) -> Entry:
        """The exponential number that this is a function of, for a race."""

    @property
    @abstractmethod
    def increases(self) -> bool:
        """Whether the value grows with that exponential number."""

    @abstractmethod
    def times(self, factor: Fraction) -> Any:
        """The product with a number other than 0."""

    @abstractmethod
    def plus(self, other: Any) -> Any:
        """The sum with a finite number, which may be without a value."""

    @abstractmethod
    def bounded(self, bound: Any, below: bool) -> Any:
        """The larger of this and `bound` if `below`, else the smaller."""

    def sign(self) -> int:
        """-1, 0 or 1, which comparisons with 0 settle."""
        if self.is_below(0, or_equal=False):
            return -1
        return 0 if self.is_below(0, or_equal=True) else 1

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        names = OPERATORS.get(ufunc.__name__)
        if names is None or method != "__call__" or not hasattr(self, names[0]):
            raise BranchError(
                f"np.{ufunc.__name__} of a uniform number cannot be enumerated: compare it to a threshold"
            )
        if len(inputs) == 1:
            return getattr(self, names[0])()
        first, second = inputs
        return getattr(self, names[0])(second) if first is self else getattr(self, names[1])(first)

    @classmethod
    def __torch_function__(cls, func: Any, *_: Any, **__: Any) -> Any:
        raise BranchError(
            f"torch.{getattr(func, '__name__', func)} of a random number of NumPy or of Python cannot be enumerated"
        )

    def _over(self, other: Any, act: Callable[[Any], Any], kind: Any = object) -> Any:
        """`act(other)`; for an array, entry by entry. A tensor takes over with its own operation."""
        if isinstance(other, np.ndarray) and other.ndim:
            return np.frompyfunc(act, 1, 1)(other).astype(kind)
        if hasattr(other, "__torch_function__") and not isinstance(other, Unknown):
            if other.ndim:
                return NotImplemented
            other = other.item()
        return act(other)

    def __lt__(self, other: Any) -> Any:
        return self._over(other, lambda x: self.is_below(x, or_equal=False), bool)

    def __le__(self, other: Any) -> Any:
        return self._over(other, lambda x: self.is_below(x, or_equal=True), bool)

    def __gt__(self, other: Any) -> Any:
        return self._over(other, lambda x: not is_nan(x) and not self.is_below(x, or_equal=True), bool)

    def __ge__(self, other: Any) -> Any:
        return self._over(other, lambda x: not is_nan(x) and not self.is_below(x, or_equal=False), bool)

    def __eq__(self, other: Any) -> Any:
        return self._over(other, self._equals, bool)

    def __ne__(self, other: Any) -> Any:
        return self._over(other, lambda x: not self._equals(x), bool)

    def _equals(self, other: Any) -> bool:
        return isinstance(other, Unknown) and self.is_same(other)

    def __bool__(self) -> bool:
        return not self._equals(0)

    def __mul__(self, other: Any) -> Any:
        return self._over(other, self._times)

    def __add__(self, other: Any) -> Any:
        return self._over(other, self._plus)

    def __sub__(self, other: Any) -> Any:
        return self._over(other, lambda x: self._plus(-x))

    def __rsub__(self, other: Any) -> Any:
        return (-self).__add__(other)

    def __truediv__(self, other: Any) -> Any:
        return self._over(other, self._over_number)

    def __rtruediv__(self, other: Any) -> Any:
        return self._over(other, lambda x: x * self._reciprocal())

    def __neg__(self) -> Any:
        return self.times(Fraction(-1))

    def _times(self, other: Any) -> Any:
        if isinstance(other, Unknown):
            raise BranchError("a product of two uniform numbers cannot be enumerated: compare them one by one")
        if not is_finite(other):
            return self.sign() * float(other)
        return self.times(self.exactly(other)) if other != 0 else 0

    def _over_number(self, other: Any) -> Any:
        if isinstance(other, Unknown):
            raise BranchError("a quotient of two random numbers cannot be enumerated: compare them one by one")
        return self._times(1 / self.exactly(other) if is_finite(other) else 1 / other)

    def _plus(self, other: Any) -> Any:
        return self.plus(other) if isinstance(other, Unknown) or is_finite(other) else float(other)

    def _reciprocal(self) -> Any:
        return self._no_number()

    __rmul__ = __mul__
    __radd__ = __add__

    def _no_number(self, *_: Any) -> Any:
        raise BranchError("a uniform number is used as a number: only comparisons with thresholds can be enumerated")

    __float__ = __int__ = __round__ = __index__ = __floor__ = _no_number


OPERATORS: dict[str, tuple[str, ...]] = {
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "add": ("__add__", "__add__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__mul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "negative": ("__neg__",),
    "log": ("log",),
    "exp": ("exp",),
}
"""The method of `Unknown` for each NumPy function, with the random number as first and as second argument."""


def is_nan(number: Any) -> bool:
    return not isinstance(number, Unknown) and number != number


def is_finite(number: Any) -> bool:
    return isinstance(number, Fraction) or bool(np.isfinite(float(number)))


class Uniform(Unknown):
    """scale * u + shift for a uniform number u."""

    def __init__(self, coin: Coin, scale: Fraction = Fraction(1), shift: Fraction = Fraction(0)) -> None:
        self.coin, self.scale, self.shift = coin, scale, shift

    def is_below(self, other: Any, or_equal: bool) -> bool:
        if isinstance(other, Uniform) and other.coin is self.coin:
            return self.plus(-other).is_below(0, or_equal)
        return super().is_below(other, or_equal)

    def _below_number(self, other: Any, or_equal: bool) -> bool:
        gap = self.exactly(other) - self.shift
        if self.scale == 0:
            return gap > 0 or (or_equal and gap == 0)
        if self.scale > 0:
            return self.coin.below(gap / self.scale, or_equal)
        return not self.coin.below(gap / self.scale, not or_equal)

    def is_like(self, other: Unknown) -> bool:
        return isinstance(other, Uniform) and (self.scale, self.shift) == (other.scale, other.shift) and self.scale != 0

    def is_same(self, other: Unknown) -> bool:
        return self.coin is other.coin and self.is_like(other)

    def entry(self) -> Entry:
        return self.coin.as_exponential(flipped=False), Fraction(1)

    @property
    def increases(self) -> bool:
        return self.scale < 0

    def _equals(self, other: Any) -> bool:
        if isinstance(other, Unknown):
            return self.is_same(other)
        if not is_finite(other) or self.exactly(other) != self.shift:
            return False
        return self.scale == 0 or self.coin.settled_zero()

    def times(self, factor: Fraction) -> Uniform:
        return Uniform(self.coin, self.scale * factor, self.shift * factor)

    def plus(self, other: Any) -> Uniform:
        if isinstance(other, Uniform) and other.coin is self.coin:
            return Uniform(self.coin, self.scale + other.scale, self.shift + other.shift)
        if isinstance(other, Unknown):
            raise BranchError("two uniform numbers are combined: compare each with a threshold")
        return Uniform(self.coin, self.scale, self.shift + self.exactly(other))

    def bounded(self, bound: Any, below: bool) -> Any:
        if self.scale > 0 and not isinstance(bound, Unknown) and is_finite(bound):
            outside = (self.exactly(bound) - self.shift) / self.scale
            if (outside if below else 1 - outside) <= GUARD:
                if self.coin.is_zero is None and 0 < outside < 1:
                    self.coin.is_zero = False
                return self
        return self if self.is_below(bound, or_equal=False) != below else bound

    def log(self) -> Exponential:
        """The natural logarithm."""
        flipped = self.scale < 0
        low, span = (self.shift + self.scale, -self.scale) if flipped else (self.shift, self.scale)
        if span <= 0 or abs(low) > GUARD * span:
            raise BranchError("the logarithm of a shifted uniform number cannot be enumerated")
        shift = Fraction(0) if abs(span - 1) <= GUARD else self.exactly(math.log(span))
        return Exponential(self.coin, flipped)._with(direction=-1, shift=shift)


class Exponential(Unknown):
    """direction * (scale * E) ** power + shift, or power * log(scale * E), for an exponential number E of mean 1."""

    scale = power = Fraction(1)
    shift = Fraction(0)
    direction, is_log = 1, False

    def __init__(self, coin: Coin, flipped: bool = False) -> None:
        self.coin = coin.as_exponential(flipped)

    @property
    def increases(self) -> bool:
        return (self.power > 0) == (self.direction > 0)

    def is_like(self, other: Unknown) -> bool:
        if not isinstance(other, Exponential) or self.is_log != other.is_log or self.direction != other.direction:
            return False
        return abs(self.power / other.power - 1) <= SAME and abs(self.shift - other.shift) <= GUARD

    def is_same(self, other: Unknown) -> bool:
        if not isinstance(other, Exponential) or self.coin is not other.coin:
            return False
        return self.is_like(other) and abs(self.scale / other.scale - 1) <= SAME

    def entry(self) -> Entry:
        return self.coin, self.scale

    def is_below(self, other: Any, or_equal: bool) -> bool:
        if isinstance(other, Exponential) and other.coin is self.coin and self.is_like(other):
            return or_equal if self.is_same(other) else (self.scale < other.scale) == self.increases
        return super().is_below(other, or_equal)

    def _below_number(self, other: Any, or_equal: bool) -> bool:
        if self.is_log:
            edge = _exponential(float(other) / float(self.power))
        else:
            edge = float(self.exactly(other) - self.shift) * self.direction
            if edge <= 0:
                return self.direction < 0
            edge = edge ** float(1 / self.power)
        return self.coin.exponential_below(edge / float(self.scale)) == self.increases

    def times(self, factor: Fraction) -> Exponential:
        if self.is_log:
            return self._with(power=self.power * factor)
        size, sign = abs(factor), self.direction * (1 if factor > 0 else -1)
        root = size ** int(self.power) if abs(self.power) == 1 else self.exactly(float(size) ** float(1 / self.power))
        return self._with(scale=self.scale * root, direction=sign, shift=self.shift * factor)

    def plus(self, other: Any) -> Any:
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
        """The natural logarithm."""
        return self._unshifted("the logarithm")._with(is_log=True)

    def exp(self) -> Unknown:
        """The exponential function of the number."""
        if self.is_log:
            return self._with(is_log=False)
        if (self.scale, self.power, self.direction, self.shift) == (1, 1, -1, 0):
            return Uniform(self.coin, *((Fraction(-1), Fraction(1)) if self.coin.flipped else ()))
        raise BranchError("the exponential function of a random number cannot be enumerated")

    def bounded(self, bound: Any, below: bool) -> Any:
        is_plain = not self.is_log and self.direction * self.power == 1 and not isinstance(bound, Unknown)
        if below and is_plain and self.exactly(bound) - self.shift <= GUARD * self.scale:
            return self
        return self if self.is_below(bound, or_equal=False) != below else bound

    def _unshifted(self, what: str) -> Exponential:
        if self.is_log or self.direction < 0 or abs(self.shift) > GUARD:
            raise BranchError(f"{what} of a shifted or negative random number cannot be enumerated")
        return self._with(shift=Fraction(0))

    def _with(self, **changed: Any) -> Exponential:
        new = object.__new__(Exponential)
        vars(new).update({**vars(self), **changed})
        return new


def _exponential(power: float) -> float:
    try:
        return math.exp(power)
    except OverflowError:
        return math.inf


def best(values: Sequence[Any] | np.ndarray, largest: bool) -> int:
    """The index of the largest or the smallest of numbers, some without a value; of equal ones the first."""
    unknown = [i for i, value in enumerate(values) if isinstance(value, Unknown)]
    leader = _leader([values[i] for i in unknown], largest)
    known = [i for i in range(len(values)) if i not in unknown]
    if any(values[i] != values[i] for i in known):
        return next(i for i in known if values[i] != values[i])
    found = -1
    for i in sorted([*known, *(unknown if leader is None else [unknown[leader]])]):
        if found < 0 or (values[i] > values[found] if largest else values[i] < values[found]):
            found = i
    return found


def _leader(values: Sequence[Any], largest: bool) -> int | None:
    """The index of the largest or smallest of random numbers by one draw; None if it takes one for each."""
    if not values or not all(values[0].is_like(value) for value in values[1:]):
        return None
    entries = [value.entry() for value in values]
    if values[0].increases == largest or len({id(coin) for coin, _ in entries}) < len(entries):
        return None
    return first(entries)
