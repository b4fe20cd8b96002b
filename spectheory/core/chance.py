"""Random choices of a program: drawn from a generator, or enumerated over all branches with exact probabilities.

`branches(program)` calls `program(rng)` once for each sequence of outcomes that its draws can have. This `rng` is a
`Branch`. It has those methods of `numpy.random.Generator` whose outcomes can be enumerated. Its uniform numbers have no
value: a comparison with a threshold is a draw with two outcomes, and narrows the interval that contains the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

import numpy as np

from spectheory.core.arrays import Vector, excess
from spectheory.core.compiling import compiler
from spectheory.core.errors import InputError
from spectheory.core.random_source import RandomSource

Result = TypeVar("Result")


COMPILED = np.dtype(np.float32), np.dtype(np.float64)
"""Number types that the compiled loop of `draw` takes without conversion."""
NUMPY_TOLERANCE = 1.5e-8
"""How far the sum of probabilities may be from 1 in `numpy.random.Generator.choice`."""
MOST_OUTCOMES = 10_000
"""Maximum number of outcomes of one draw. A seed for another generator has more, and cannot be enumerated."""
MOST_DRAWS = 10_000
"""Maximum number of draws of one branch. A loop that may reject again and again has a branch without end."""


Fork = tuple[int, tuple[Any, ...]]
"""The index of the outcome that was taken, and the weights of all possible outcomes."""


class BranchError(Exception):
    """The program draws, or uses what it drew, in a way that cannot be enumerated."""


def draw(
    distribution: Vector, rng: RandomSource, *, less: Vector | None = None, otherwise: Vector | None = None
) -> int:
    """Draw a token from `distribution` (V,), or from (distribution - less)+. The weights need not sum to 1.

    Args:
        distribution: (V,) weights of the tokens.
        rng: a `numpy.random.Generator` or a `Branch`.
        less: (V,) weights to subtract; None subtracts nothing.
        otherwise: (V,) weights to draw from if all weights are 0 after the subtraction.

    Raises:
        InputError: all weights are 0, and `otherwise` is None.

    A uniform number is at most 1 - 2**-53, so its product with the sum of the weights rounds to less than this sum,
    unless the sum is subnormal.
    """
    if less is not None and (isinstance(rng, Branch) or not _compilable(distribution, less)):
        distribution, less = excess(distribution, less), None
    if isinstance(rng, Branch):
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
    """The distribution in float64 in host memory. A list may hold numbers that are each on a device."""
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
    """The body of `draw`, to be compiled; -1 if all weights are 0. If `less` is empty, nothing is subtracted."""
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
    """`invert`, compiled by Numba and cached on disk. Numba is imported at the first call."""
    return compiler(cache=True)(invert)


def branches(program: Callable[[Branch], Result], *, most: int = 1_000_000) -> Iterator[tuple[Result, Fraction]]:
    """Yield the result of `program` in each branch, with the exact probability of the branch. These sum to 1.

    Branches in which a uniform number is exactly 0 have probability 0 and are included, because a generator of
    floating-point numbers can return 0.

    Args:
        program: function of the random source.
        most: maximum number of branches.

    Raises:
        BranchError: the program has more than `most` branches, returns different results for the same draws, or uses a
            draw that `Branch` does not have.
    """
    script: list[Fork] = []
    for _ in range(most):
        branch = Branch(script)
        yield program(branch), branch.chance
        script = branch.trail
        while script and script[-1][0] == len(script[-1][1]) - 1:
            script.pop()
        if not script:
            return
        chosen, weights = script.pop()
        script.append((chosen + 1, weights))
    raise BranchError(f"the program has more than {most:,} branches")


class Branch:
    """A random source that returns the outcomes of a script, then the first outcome of each further draw.

    Attributes:
        chance: product of the probabilities of the outcomes so far.
        trail: the outcome of each draw so far, with the weights of all its possible outcomes.
        is_used: whether a number was drawn, even one that nothing was compared with.
    """

    def __init__(self, script: Sequence[Fork]) -> None:
        self.script = script
        self.trail: list[Fork] = []
        self.chance = Fraction(1)
        self.is_used = False

    def fork(self, weights: Sequence[Any]) -> int:
        """Draw among outcomes with these weights, all above 0, and return the index of the outcome."""
        at, possible, self.is_used = len(self.trail), tuple(weights), True
        if at == MOST_DRAWS:
            raise BranchError(f"the program draws more than {MOST_DRAWS:,} times in one branch")
        chosen, before = self.script[at] if at < len(self.script) else (0, possible)
        if before != possible:
            raise BranchError(
                "the program returned another result on the same draws: it has a random source of its own; use only "
                "the rng that it is given"
            )
        self.trail.append((chosen, possible))
        self.chance *= _exact(possible[chosen]) / sum(map(_exact, possible))
        return chosen

    @property
    def chance_given_zeros(self) -> Fraction:
        """Probability of the branch given the uniform numbers that are exactly 0 in it; `chance` if there are none."""
        taken = ((weights[chosen], weights) for chosen, weights in self.trail if weights[chosen] != 0)
        return math.prod((_exact(weight) / sum(map(_exact, weights)) for weight, weights in taken), start=Fraction(1))

    def choice(self, a: Any, size: None = None, replace: bool = True, p: Any = None, **unsupported: Any) -> Any:
        """Draw one entry of `a` (a length or a sequence) with probabilities `p`, which must sum to 1."""
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
            raise BranchError(f"integers over {span} cannot be enumerated: it has more than {MOST_OUTCOMES:,} outcomes")
        return self.choice(span)

    def permutation(self, x: Any, **unsupported: Any) -> np.ndarray:
        """The entries of `x` (a length or a sequence) in random order."""
        _refuse("permutation", **unsupported)
        left = list(range(x)) if isinstance(x, int | np.integer) else list(x)
        return np.array([left.pop(self.integers(len(left))) for _ in range(len(left))])

    def random(self, size: int | None = None, **unsupported: Any) -> Any:
        """A uniform number on [0, 1), or a row of `size` of them."""
        _refuse("random", **unsupported)
        self.is_used = True
        if size is None:
            return Uniform(_Coin(self))
        if not isinstance(size, int | np.integer):
            raise BranchError(f"random(size={size}) cannot be enumerated: draw a row, or one after another")
        return np.array([self.random() for _ in range(size)] + [None], dtype=object)[:-1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BranchError(f"rng.{name} cannot be enumerated: use random, choice, integers or permutation")


def _refuse(method: str, **given: Any) -> None:
    named = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
    if named:
        raise BranchError(f"{method}({named}) cannot be enumerated: draw one after another, with no options")


class _Coin:
    """A uniform number, of which it is known only that it is 0 or that it is in the open interval (low, high)."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.low, self.high = Fraction(0), Fraction(1)
        self.is_zero: bool | None = None

    def settled_zero(self) -> bool:
        """Whether the number is exactly 0. The first call draws this."""
        if self.is_zero is None:
            self.is_zero = self.branch.fork([1, 0]) == 1
        return self.is_zero

    def below(self, threshold: Fraction, or_equal: bool) -> bool:
        """Whether the number is < threshold, or <= threshold. If this is not known yet, the call draws it."""
        if self.settled_zero():
            return threshold > 0 or (or_equal and threshold == 0)
        if threshold <= self.low or threshold >= self.high:
            return threshold >= self.high
        is_below = self.branch.fork([threshold - self.low, self.high - threshold]) == 0
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
"""The method of `Uniform` for each NumPy function of two arguments, with the uniform number first and second."""


class Uniform:
    """scale * u + shift for a uniform number u. It can only be scaled, shifted and compared."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, coin: _Coin, scale: Fraction = Fraction(1), shift: Fraction = Fraction(0)) -> None:
        self.coin, self.scale, self.shift = coin, scale, shift

    def _compare(self, other: Any, below: bool, or_equal: bool) -> Any:
        """Whether self < other (or <=) if `below`, else whether self > other (or >=); entry by entry for an array."""
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
            raise BranchError(
                f"np.{ufunc.__name__} of a uniform number cannot be enumerated: compare it with a threshold"
            )
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
            raise BranchError("a product of two uniform numbers cannot be enumerated: compare them one by one")
        return Uniform(self.coin, self.scale * _exact(other), self.shift * _exact(other))

    def __truediv__(self, other: Any) -> Uniform:
        return self * (1 / _exact(other))

    def __add__(self, other: Any) -> Uniform:
        if isinstance(other, Uniform):
            if other.coin is not self.coin:
                raise BranchError("two uniform numbers are combined: compare each with a threshold")
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
        raise BranchError("a uniform number is used as a number: only comparisons with thresholds can be enumerated")

    __float__ = __int__ = __round__ = __index__ = _no_number


def _exact(number: Any) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(number.item() if hasattr(number, "item") else number)
