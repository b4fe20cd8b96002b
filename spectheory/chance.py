"""Random choices of a program: drawn from a generator, or played over every branch with exact probabilities.

`branches(program)` calls `program(rng)` once for each sequence of outcomes that its draws can have. The `rng` it hands
over is a `Replay`, which has the methods of `numpy.random.Generator` whose outcomes can be counted; a uniform number
is a symbol that is settled only as far as the comparisons it takes part in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from spectheory.arrays import Vector

Result = TypeVar("Result")


MOST_OUTCOMES = 10_000
"""Outcomes of one draw; a seed for another generator has more, and what comes of it cannot be enumerated."""


class ReplayError(Exception):
    """The program draws, or uses what it drew, in a way that cannot be enumerated."""


def draw(law: Vector, rng: Any) -> int:
    """A token of `law` (V,), from a `numpy.random.Generator` or a `Replay`; the law need not be normalised."""
    if isinstance(rng, Replay):
        return rng.choice(len(law), p=law)
    weights = np.asarray(law, dtype=np.float64)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def branches(program: Callable[[Replay], Result], *, most: int = 1_000_000) -> Iterator[tuple[Result, Fraction]]:
    """Every result of `program` with the exact probability of the branch that led to it; they sum to 1.

    Branches of probability 0 in which a uniform number is exactly 0 are played too, since a generator of floating
    point numbers does return 0.

    Raises:
        ReplayError: the program has more than `most` branches, decides otherwise on the same draws, or uses a draw
            that `Replay` does not offer.
    """
    script: list[int] = []
    for _ in range(most):
        replay = Replay(script)
        yield program(replay), replay.chance
        trail = replay.trail
        while trail and trail[-1][0] == trail[-1][1] - 1:
            trail.pop()
        if not trail:
            return
        script = [chosen for chosen, _ in trail]
        script[-1] += 1
    raise ReplayError(f"the program has more than {most:,} branches")


class Replay:
    """A random source that follows a script of outcomes, then takes the first outcome of each further draw.

    `chance` is the product of the probabilities of the outcomes so far, `trail` lists (chosen, possible) outcomes.
    """

    def __init__(self, script: Sequence[int]) -> None:
        self.script = script
        self.trail: list[tuple[int, int]] = []
        self.chance = Fraction(1)

    def fork(self, weights: Sequence[Any]) -> int:
        """Index of the outcome taken, of outcomes with the given weights, all of them possible."""
        at = len(self.trail)
        chosen = self.script[at] if at < len(self.script) else 0
        if chosen >= len(weights):
            raise ReplayError("the program decides otherwise on the same draws: it has a random source of its own")
        self.trail.append((chosen, len(weights)))
        self.chance *= _exact(weights[chosen]) / sum(map(_exact, weights))
        return chosen

    def choice(self, a: Any, size: None = None, replace: bool = True, p: Any = None) -> Any:
        """One of `a` (a length or a sequence) with weights `p`."""
        if size is not None:
            raise ReplayError("choice(size=...) is not replayed: draw one after another")
        values = range(a) if isinstance(a, int | np.integer) else a
        weights = [1] * len(values) if p is None else list(p)
        if len(weights) != len(values) or any(not w >= 0 for w in weights) or not any(w > 0 for w in weights):
            raise ValueError(f"choice needs one weight >= 0 for each of {len(values)} values, not all 0, got {weights}")
        possible = [i for i, weight in enumerate(weights) if weight > 0]
        return values[possible[self.fork([weights[i] for i in possible])]]

    def integers(self, low: int, high: int | None = None) -> int:
        """A whole number in [0, low) or [low, high)."""
        span = range(low) if high is None else range(low, high)
        if span.stop - span.start > MOST_OUTCOMES:
            raise ReplayError(f"integers over {span} is not replayed: it has more than {MOST_OUTCOMES:,} outcomes")
        return self.choice(span)

    def permutation(self, x: Any) -> np.ndarray:
        """The entries of `x` (a length or a sequence) in random order."""
        left = list(range(x)) if isinstance(x, int | np.integer) else list(x)
        return np.array([left.pop(self.integers(len(left))) for _ in range(len(left))])

    def random(self, size: int | None = None) -> Any:
        """A uniform number on [0, 1), or a row of `size` of them."""
        if size is not None:
            return np.array([self.random() for _ in range(size)] + [None], dtype=object)[:-1]
        return Uniform(_Coin(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ReplayError(f"rng.{name} is not replayed: use random, choice, integers or permutation")


class _Coin:
    """A uniform number known to be 0, or to lie in the open interval (low, high)."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.low, self.high = Fraction(0), Fraction(1)
        self.is_zero: bool | None = None

    def below(self, threshold: Fraction, or_equal: bool) -> bool:
        """Whether u < threshold, or u <= threshold."""
        if self.is_zero is None:
            self.is_zero = self.replay.fork([1, 0]) == 1
        if self.is_zero:
            return threshold > 0 or (or_equal and threshold == 0)
        if threshold <= self.low or threshold >= self.high:
            return threshold >= self.high
        is_below = self.replay.fork([threshold - self.low, self.high - threshold]) == 0
        if is_below:
            self.high = threshold
        else:
            self.low = threshold
        return is_below


class Uniform:
    """scale * u + shift for a uniform u: it may be scaled, shifted and compared, and nothing else."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, coin: _Coin, scale: Fraction = Fraction(1), shift: Fraction = Fraction(0)) -> None:
        self.coin, self.scale, self.shift = coin, scale, shift

    def _compare(self, other: Any, below: bool, or_equal: bool) -> Any:
        """Whether self < other (or <=) where `below`, self > other (or >=) elsewhere; entry by entry for an array."""
        if isinstance(other, np.ndarray) and other.ndim:
            return np.array([self._compare(entry, below, or_equal) for entry in other])
        if isinstance(other, Uniform):
            return (other - self)._compare(0, not below, or_equal)
        if _is_nan(other):
            return False
        if not np.isfinite(float(other)):
            return below == (float(other) > 0)
        gap = _exact(other) - self.shift
        if self.scale == 0:
            return (gap > 0) == below if gap else or_equal
        if (self.scale > 0) == below:
            return self.coin.below(gap / self.scale, or_equal)
        return not self.coin.below(gap / self.scale, not or_equal)

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

    def __float__(self) -> float:
        raise ReplayError("a uniform number is used as a number: only comparisons with thresholds are replayed")


def _exact(number: Any) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(number.item() if hasattr(number, "item") else number)


def _is_nan(number: Any) -> bool:
    return number != number
