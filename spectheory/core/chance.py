"""Random choices of a program: drawn from a generator, or played over every branch with exact probabilities.

`branches(program)` calls `program(rng)` once for each sequence of outcomes that its draws can have. The `rng` it passes
is a `Replay`, which has the methods of `numpy.random.Generator` whose outcomes can be counted; a uniform number
is a symbol that is settled only as far as the comparisons it takes part in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

import numpy as np

from spectheory.core.arrays import Vector, excess
from spectheory.core.errors import InputError

Result = TypeVar("Result")


COMPILED = np.dtype(np.float32), np.dtype(np.float64)
"""What `draw` inverts by a compiled loop as it is."""
NUMPY_TOLERANCE = 1.5e-8
"""How far probabilities may be from a sum of 1 before `numpy.random.Generator.choice` refuses them."""
MOST_OUTCOMES = 10_000
"""Outcomes of one draw; a seed for another generator has more, and its results cannot be enumerated."""
MOST_DRAWS = 10_000
"""Draws of one branch: a loop that may reject any number of times would have a branch without end."""


Fork = tuple[int, tuple[Any, ...]]
"""The outcome taken, and the weights of all outcomes that were possible."""


class ReplayError(Exception):
    """The program draws, or uses what it drew, in a way that cannot be enumerated."""


def draw(distribution: Vector, rng: Any, *, less: Vector | None = None, otherwise: Vector | None = None) -> int:
    """Draw a token from `distribution` (V,), or from (distribution - less)+; from `otherwise` where that is all 0.

    They need not be normalised.

    From a `numpy.random.Generator` or a `Replay`. A uniform number is at most 1 - 2**-53, so that its product with the
    sum of the distribution rounds to less than that sum, unless that is subnormal.

    Raises:
        InputError: no token is probable, and there is nothing else to draw from.
    """
    if less is not None and (isinstance(rng, Replay) or not _compilable(distribution, less)):
        distribution, less = excess(distribution, less), None
    if isinstance(rng, Replay):
        possible = [token for token, weight in enumerate(distribution) if weight > 0]
        token = possible[rng.fork([distribution[token] for token in possible])] if possible else -1
    else:
        if not _compilable(distribution):
            distribution = _fetched(distribution)
        token = compiled()(distribution, distribution[:0] if less is None else less, rng.random())
    if token >= 0:
        return token
    if otherwise is None:
        raise InputError(
            "distribution must have a positive entry and no NaN, so that a token can be drawn: check what the model "
            "returned"
        )
    return draw(otherwise, rng)


def _fetched(distribution: Any) -> np.ndarray:
    """The distribution on the host, in float64; a list may hold numbers that are each on a device."""
    if isinstance(distribution, np.ndarray):
        return distribution.astype(np.float64)
    return np.asarray(distribution.cpu() if hasattr(distribution, "cpu") else [*map(float, distribution)], np.float64)


def _compilable(*distributions: Vector) -> bool:
    return all(
        isinstance(distribution, np.ndarray)
        and distribution.dtype in COMPILED
        and distribution.ndim == 1
        and len(distribution) == len(distributions[0])
        for distribution in distributions
    )


def invert(distribution: np.ndarray, less: np.ndarray, uniform: float) -> int:
    """The body of `draw`, compiled: a token at a uniform number, -1 where none is probable. Nothing is less: (0,)."""
    rest = np.empty(len(distribution))
    for token in range(len(distribution)):
        rest[token] = max(distribution[token] - less[token], 0) if len(less) else distribution[token]
    point, edge, found = uniform * rest.sum(), 0.0, -1
    for token, weight in enumerate(rest):
        if weight > 0 and point >= 0:
            edge, found = edge + weight, token
            if point < edge:
                break
    return found


@cache
def compiled() -> Callable[[np.ndarray, np.ndarray, float], int]:
    """`invert`, compiled once and kept on disk; Numba is imported here and not before."""
    from numba import njit

    return njit(cache=True)(invert)


def branches(program: Callable[[Replay], Result], *, most: int = 1_000_000) -> Iterator[tuple[Result, Fraction]]:
    """Every result of `program` with the exact probability of the branch that led to it; they sum to 1.

    Branches of probability 0 in which a uniform number is exactly 0 are played too, since a generator of floating
    point numbers does return 0.

    Raises:
        ReplayError: the program has more than `most` branches, returns another result on the same draws, or uses a draw
            that `Replay` does not offer.
    """
    script: list[Fork] = []
    for _ in range(most):
        replay = Replay(script)
        yield program(replay), replay.chance
        script = replay.trail
        while script and script[-1][0] == len(script[-1][1]) - 1:
            script.pop()
        if not script:
            return
        chosen, weights = script.pop()
        script.append((chosen + 1, weights))
    raise ReplayError(f"the program has more than {most:,} branches")


class Replay:
    """A random source that follows a script of outcomes, then takes the first outcome of each further draw.

    `chance` is the product of the probabilities of the outcomes so far, `trail` lists the forks.
    """

    def __init__(self, script: Sequence[Fork]) -> None:
        self.script = script
        self.trail: list[Fork] = []
        self.chance = Fraction(1)

    def fork(self, weights: Sequence[Any]) -> int:
        """Index of the outcome taken, of outcomes with the given weights, all of them possible."""
        at, possible = len(self.trail), tuple(weights)
        if at == MOST_DRAWS:
            raise ReplayError(f"the program draws more than {MOST_DRAWS:,} times in one branch")
        chosen, before = self.script[at] if at < len(self.script) else (0, possible)
        if before != possible:
            raise ReplayError(
                "the program returned another result on the same draws: it has a random source of its own"
            )
        self.trail.append((chosen, possible))
        self.chance *= _exact(possible[chosen]) / sum(map(_exact, possible))
        return chosen

    def choice(self, a: Any, size: None = None, replace: bool = True, p: Any = None, **unsupported: Any) -> Any:
        """One of `a` (a length or a sequence) with probabilities `p`, which must sum to 1 as NumPy's must."""
        _refuse("choice", size=size, **unsupported)
        values = range(a) if isinstance(a, int | np.integer) else a
        weights = [1] * len(values) if p is None else list(p)
        if len(weights) != len(values) or any(not w >= 0 for w in weights):
            raise InputError(f"choice needs one probability >= 0 for each of {len(values)} values, got {weights}")
        if p is not None and abs(sum(weights) - 1) > NUMPY_TOLERANCE:
            raise InputError(f"probabilities do not sum to 1: {weights}")
        possible = [i for i, weight in enumerate(weights) if weight > 0]
        return values[possible[self.fork([weights[i] for i in possible])]]

    def integers(self, low: int, high: int | None = None, size: None = None, **unsupported: Any) -> int:
        """A whole number in [0, low) or [low, high)."""
        _refuse("integers", size=size, **unsupported)
        span = range(low) if high is None else range(low, high)
        if span.stop - span.start > MOST_OUTCOMES:
            raise ReplayError(f"integers over {span} is not replayed: it has more than {MOST_OUTCOMES:,} outcomes")
        return self.choice(span)

    def permutation(self, x: Any, **unsupported: Any) -> np.ndarray:
        """The entries of `x` (a length or a sequence) in random order."""
        _refuse("permutation", **unsupported)
        left = list(range(x)) if isinstance(x, int | np.integer) else list(x)
        return np.array([left.pop(self.integers(len(left))) for _ in range(len(left))])

    def random(self, size: int | None = None, **unsupported: Any) -> Any:
        """A uniform number on [0, 1), or a row of `size` of them."""
        _refuse("random", **unsupported)
        if size is None:
            return Uniform(_Coin(self))
        if not isinstance(size, int | np.integer):
            raise ReplayError(f"random(size={size}) is not replayed: draw a row, or one after another")
        return np.array([self.random() for _ in range(size)] + [None], dtype=object)[:-1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ReplayError(f"rng.{name} is not replayed: use random, choice, integers or permutation")


def _refuse(method: str, **given: Any) -> None:
    named = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
    if named:
        raise ReplayError(f"{method}({named}) is not replayed: draw one after another, with no options")


class _Coin:
    """A uniform number known to be 0, or to lie in the open interval (low, high)."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.low, self.high = Fraction(0), Fraction(1)
        self.is_zero: bool | None = None

    def settled_zero(self) -> bool:
        """Whether it is exactly 0."""
        if self.is_zero is None:
            self.is_zero = self.replay.fork([1, 0]) == 1
        return self.is_zero

    def below(self, threshold: Fraction, or_equal: bool) -> bool:
        """Whether u < threshold, or u <= threshold."""
        if self.settled_zero():
            return threshold > 0 or (or_equal and threshold == 0)
        if threshold <= self.low or threshold >= self.high:
            return threshold >= self.high
        is_below = self.replay.fork([threshold - self.low, self.high - threshold]) == 0
        if is_below:
            self.high = threshold
        else:
            self.low = threshold
        return is_below


OPERATORS = {
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
    "equal": ("__eq__", "__eq__"),
    "add": ("__add__", "__add__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__mul__"),
    "divide": ("__truediv__", "_no_number"),
}
"""What NumPy's functions of two arguments mean with a uniform number first, and second."""


class Uniform:
    """scale * u + shift for a uniform u: it may be scaled, shifted and compared, and nothing else."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, coin: _Coin, scale: Fraction = Fraction(1), shift: Fraction = Fraction(0)) -> None:
        self.coin, self.scale, self.shift = coin, scale, shift

    def _compare(self, other: Any, below: bool, or_equal: bool) -> Any:
        """Whether self < other (or <=) where `below`, self > other (or >=) elsewhere; entry by entry for an array."""
        if isinstance(other, np.ndarray) and other.ndim:
            return np.array([self._compare(entry, below, or_equal) for entry in other])
        if isinstance(other, Uniform):
            return (other - self)._compare(0, not below, or_equal)
        if not np.isfinite(number := float(other)):
            return not np.isnan(number) and below == (number > 0)
        gap = _exact(other) - self.shift
        if self.scale == 0:
            return (gap > 0) == below if gap else or_equal
        if (self.scale > 0) == below:
            return self.coin.below(gap / self.scale, or_equal)
        return not self.coin.below(gap / self.scale, not or_equal)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        names = OPERATORS.get(ufunc.__name__)
        if names is None or method != "__call__":
            raise ReplayError(f"np.{ufunc.__name__} of a uniform number is not replayed: compare it with a threshold")
        first, second = inputs
        return getattr(self, names[0])(second) if first is self else getattr(self, names[1])(first)

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, Uniform) or self.scale == 0:
            return other is self
        return bool(_exact(other) == self.shift) and self.coin.settled_zero()

    def __bool__(self) -> bool:
        return self != 0

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, below=True, or_equal=False)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, below=True, or_equal=True)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, below=False, or_equal=False)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, below=False, or_equal=True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim:
            return np.array([self * entry for entry in other] + [None], dtype=object)[:-1]
        if isinstance(other, Uniform):
            raise ReplayError("a product of two uniform numbers is not replayed: compare them one by one")
        return Uniform(self.coin, self.scale * _exact(other), self.shift * _exact(other))

    def __truediv__(self, other: Any) -> Uniform:
        return self * (1 / _exact(other))

    def __add__(self, other: Any) -> Uniform:
        if isinstance(other, Uniform):
            if other.coin is not self.coin:
                raise ReplayError("two uniform numbers are combined: compare each with a threshold")
            return Uniform(self.coin, self.scale + other.scale, self.shift + other.shift)
        return Uniform(self.coin, self.scale, self.shift + _exact(other))

    def __neg__(self) -> Uniform:
        return self * -1

    def __sub__(self, other: Any) -> Uniform:
        return self + -other

    def __rsub__(self, other: Any) -> Uniform:
        return -self + other

    __rmul__ = __mul__
    __radd__ = __add__

    def _no_number(self, *_: Any) -> Any:
        raise ReplayError("a uniform number is used as a number: only comparisons with thresholds are replayed")

    __float__ = __int__ = __round__ = __index__ = _no_number


def _exact(number: Any) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(number.item() if hasattr(number, "item") else number)
