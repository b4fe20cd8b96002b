"""Random choices of a program: drawn from a generator, or enumerated over all branches with exact probabilities.

`branches(program)` calls `program(rng)` once for each sequence of outcomes that its draws can have. This `rng` is a
`Branch`. It has those methods of `numpy.random.Generator` whose outcomes can be enumerated. Its uniform and exponential
numbers have no value (see `coins`): a comparison is a draw with two outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np

from spectheory.core.arrays import RandomSource, Vector, excess
from spectheory.core.checks import check_whole, checked
from spectheory.core.coins import BranchError, Coin, Exponential, Uniform, exact, is_float
from spectheory.core.errors import InputError
from spectheory.core.machine import compiled

Result = TypeVar("Result")


COMPILED = np.dtype(np.float32), np.dtype(np.float64)
"""Number types that the compiled loop of `draw` takes without conversion."""
MOST_OUTCOMES = 10_000
"""Maximum number of outcomes of one draw. A seed for another generator has more, and cannot be enumerated."""
MOST_DRAWS = 10_000
"""Maximum number of draws of one branch. A loop that may reject again and again has a branch without end."""


class Fork(NamedTuple):
    """A draw in a branch.

    Attributes:
        chosen: index of the outcome that was taken.
        weights: the weights of all possible outcomes.
        after: the probability of the branch up to this outcome, and the same given the uniform numbers that are exactly
            0; None before the branch has reached it.
    """

    chosen: int
    weights: tuple[Any, ...]
    after: tuple[Fraction, Fraction] | None = None


def draw(
    distribution: Vector, rng: RandomSource, *, less: Vector | None = None, otherwise: Vector | None = None
) -> int:
    """Draw a token from `distribution` (V,), or from (distribution - less)+. The weights need not sum to 1.

    Args:
        distribution: (V,) weights of the tokens.
        rng: a `numpy.random.Generator` or a `Branch`.
        less: (V,) weights to subtract; None subtracts nothing.
        otherwise: (V,) weights to draw from if all weights are 0 after the subtraction, or one is NaN.

    Raises:
        InputError: all weights are 0 or one is NaN, and `otherwise` is None.

    A uniform number is at most 1 - 2**-53, so its product with the sum of the weights rounds to less than this sum,
    unless the sum is subnormal.
    """
    if less is not None and (isinstance(rng, Branch) or not _compilable(distribution, less)):
        distribution, less = excess(distribution, less), None
    if isinstance(rng, Branch):
        token = rng.pick(distribution) if any(weight > 0 for weight in distribution) else -1
    else:
        if not _compilable(distribution):
            distribution = fetched(distribution)
        token = compiled(invert)(distribution, distribution[:0] if less is None else less, rng.random())
    if token >= 0:
        return token
    if otherwise is None:
        raise InputError(
            "distribution must have a positive entry and no NaN, so that a token can be drawn: check what the model "
            "returned"
        )
    return draw(otherwise, rng)


def fetched(distribution: Any) -> np.ndarray:
    """The distribution in float64 in host memory. A list may hold numbers that are each on a device."""
    if isinstance(distribution, np.ndarray):
        return distribution.astype(np.float64)
    double = distribution.double().cpu() if hasattr(distribution, "cpu") else [*map(float, distribution)]
    return np.asarray(double, np.float64)


def _compilable(*distributions: Vector) -> bool:
    for one in distributions:
        if not (isinstance(one, np.ndarray) and one.dtype in COMPILED and one.shape == (len(distributions[0]),)):
            return False
    return True


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


@checked
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
    check_whole("most", most, 1)
    script: list[Fork] = []
    for _ in range(most):
        branch = Branch(script)
        yield program(branch), branch.chance
        script = branch.trail
        while script and script[-1].chosen == len(script[-1].weights) - 1:
            script.pop()
        if not script:
            return
        last = script.pop()
        script.append(Fork(last.chosen + 1, last.weights))
    raise BranchError(f"the program has more than {most:,} branches")


class Pick(NamedTuple):
    """A draw of an index.

    Attributes:
        weights: the weights of all indices.
        chosen: the index that was drawn.
    """

    weights: tuple[Any, ...]
    chosen: int


class Branch:
    """A random source that returns the outcomes of a script, then the first outcome of each further draw.

    Attributes:
        chance: product of the probabilities of the outcomes so far.
        chance_given_zeros: the same given the uniform numbers that are exactly 0; `chance` if there are none.
        trail: the outcome of each draw so far, with the weights of all its possible outcomes.
        is_used: whether a number was drawn, even one that nothing was compared with.
        drawn: the uniform numbers and picks so far, in order.
        is_rounded: whether a float took part in a draw or a comparison.
    """

    def __init__(self, script: Sequence[Fork]) -> None:
        self.script = script
        self.trail: list[Fork] = []
        self.chance = self.chance_given_zeros = Fraction(1)
        self.is_used = False
        self.drawn: list[Coin | Pick] = []
        self.is_rounded = False

    def fork(self, weights: Sequence[Any]) -> int:
        """Draw among outcomes with these weights, all above 0, and return the index of the outcome."""
        at, possible, self.is_used = len(self.trail), tuple(weights), True
        if at == MOST_DRAWS:
            raise BranchError(f"the program draws more than {MOST_DRAWS:,} times in one branch")
        taken = self.script[at] if at < len(self.script) else Fork(0, possible)
        if taken.weights != possible:
            raise BranchError(
                "the program returned another result on the same draws: it has a random source of its own; use only "
                "the rng that it is given"
            )
        self.is_rounded |= any(map(is_float, possible))
        self.chance, self.chance_given_zeros = after = taken.after or self._after(taken)
        self.trail.append(taken._replace(after=after))
        return taken.chosen

    def _after(self, taken: Fork) -> tuple[Fraction, Fraction]:
        """`Fork.after` of the next outcome."""
        share = exact(taken.weights[taken.chosen]) / sum(map(exact, taken.weights))
        chance = self.chance * share
        if not share:
            return chance, self.chance_given_zeros
        return chance, chance if self.chance is self.chance_given_zeros else self.chance_given_zeros * share

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, **unsupported: Any) -> Any:
        """Draw one entry of `a` (a length or a sequence) with probabilities `p`, which must sum to 1, or `size` many.

        Without `replace`, an entry that was drawn is not drawn again.
        """
        _refuse("choice", **unsupported)
        values = range(a) if isinstance(a, int | np.integer) else a
        weights = [1] * len(values) if p is None else list(p)
        if len(weights) != len(values) or any(not w >= 0 for w in weights):
            raise InputError(f"choice needs one probability >= 0 for each of {len(values)} values, got {p!r:.80}")
        kind = p.dtype if isinstance(p, np.ndarray) and p.dtype.kind == "f" else float
        if p is not None and abs(sum(weights) - 1) > np.finfo(kind).eps ** 0.5:
            raise InputError(f"probabilities do not sum to 1: {p!r:.80}")
        if size is None:
            return values[self.pick(weights)]
        count = math.prod(np.atleast_1d(size).tolist())
        if not replace and count > sum(weight > 0 for weight in weights):
            raise InputError(f"choice cannot draw {count} of {sum(weight > 0 for weight in weights)} without repeats")
        return np.array([values[i] for i in self.picks(weights, count, replace)]).reshape(size)

    def pick(self, weights: Sequence[Any]) -> int:
        """Draw an index with probability proportional to its weight, which is at least 0."""
        possible = [i for i, weight in enumerate(weights) if weight > 0]
        index = possible[self.fork([weights[i] for i in possible])]
        self.drawn.append(Pick(tuple(weights), index))
        return index

    def picks(self, weights: Sequence[Any], count: int, replace: bool) -> list[int]:
        """Draw `count` indices, with or without replacement."""
        left, found = list(weights), []
        for _ in range(count):
            found.append(self.pick(left))
            if not replace:
                left[found[-1]] = 0
        return found

    def integers(self, low: int, high: int | None = None, size: Any = None, **unsupported: Any) -> Any:
        """A whole number in [0, low) or [low, high), or an array of them."""
        _refuse("integers", **unsupported)
        span = range(low) if high is None else range(low, high)
        if span.stop - span.start > MOST_OUTCOMES:
            raise BranchError(f"integers over {span} cannot be enumerated: it has more than {MOST_OUTCOMES:,} outcomes")
        return self.choice(span, size)

    def permutation(self, x: Any, **unsupported: Any) -> np.ndarray:
        """The entries of `x` (a length or a sequence) in random order."""
        _refuse("permutation", **unsupported)
        left = list(range(x)) if isinstance(x, int | np.integer) else list(x)
        first = [left.pop(self.integers(len(left))) for _ in range(len(left) - 1)]
        return np.array(first + left)

    def random(self, size: Any = None, **unsupported: Any) -> Any:
        """A uniform number on [0, 1), or an array of them."""
        _refuse("random", **unsupported)
        self.is_used = True
        return self._filled(size, lambda: Uniform(Coin(self)))

    def uniform(self, low: Any = 0, high: Any = 1, size: Any = None) -> Any:
        """A uniform number on [low, high), or an array of them."""
        return self.random(size) * (high - low) + low

    def exponential(self, scale: Any = 1, size: Any = None) -> Any:
        """An exponential number with mean `scale`, or an array of them."""
        self.is_used = True
        return self._filled(size, lambda: Exponential(Coin(self))) * scale

    def standard_exponential(self, size: Any = None) -> Any:
        """An exponential number with mean 1, or an array of them."""
        return self.exponential(1, size)

    def gumbel(self, loc: Any = 0, scale: Any = 1, size: Any = None) -> Any:
        """A Gumbel number, or an array of them."""
        self.is_used = True
        return self._filled(size, lambda: -Exponential(Coin(self)).log()) * scale + loc

    def _filled(self, size: Any, number: Callable[[], Any]) -> Any:
        """One number that `number` returns, or an array of such numbers."""
        return number() if size is None else np.frompyfunc(lambda _: number(), 1, 1)(np.empty(size))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BranchError(f"rng.{name} cannot be enumerated: use random, choice, integers, permutation or exponential")


def _refuse(method: str, **given: Any) -> None:
    named = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
    if named:
        raise BranchError(f"{method}({named}) cannot be enumerated: draw one after another, with no options")
