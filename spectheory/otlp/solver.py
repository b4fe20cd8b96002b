"""`Solver`, the base class of node solvers, and what several of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, final

import numpy as np

from spectheory.core.arrays import RandomSource, Vector, as_distribution, check_tokens
from spectheory.core.chance import draw
from spectheory.core.checks import LARGEST_TREE, check_whole, checked
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError


class Solver(ABC):
    """A node solver. It is lossless if the drafted tokens were drawn by one of `rules`; `rule` is the first of them.

    `distribution`, `acceptance` and `sample` check their arguments, then call the methods of the same name with a
    leading underscore. A solver defines these methods. Callers whose arguments are already checked may call them.
    """

    rules: ClassVar[tuple[DrawRule, ...]]
    most_drafts: ClassVar[int | None] = None
    """Maximum number of drafts at a node; None for no maximum."""
    small_vocabulary_only: ClassVar[str] = ""
    """The reason why the solver cannot be used with the vocabulary of a language model; empty if it can."""

    def variants(self) -> tuple[Solver, ...]:
        """The solver with other settings, which are certified and measured too."""
        return ()

    def drafts_in_reach(self, vocabulary: int) -> int | None:
        """The maximum k for which `acceptance` takes at most seconds with this vocabulary size; None for any k."""
        return self.most_drafts

    @property
    def rule(self) -> DrawRule:
        """The draw rule for which `acceptance` holds."""
        return self.rules[0]

    @final
    def distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """(V,) distribution of the emitted token given the drafts; papers call it branching probabilities.

        Args:
            p: (V,) the target's distribution.
            q: (V,) the draft's distribution.
            drafts: (k,) drafted tokens in draw order, with repeats, k >= 1.

        Raises:
            InputError: p or q is not a distribution, their lengths differ, or a draft is outside the vocabulary or has
                q = 0.
        """
        return self._distribution(*_checked(p, q, drafts))

    @final
    def acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """Probability that the emitted token is among k >= 1 drafts drawn by `rule`.

        Raises:
            InputError: p or q is not a distribution, their lengths differ, or k < 1.
        """
        p, q = _pair(p, q)
        check_whole("k", k, 1, most=LARGEST_TREE)
        return self._acceptance(p, q, k)

    @final
    def sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: RandomSource) -> int:
        """Draw the emitted token given the drafts; `rng` is a `numpy.random.Generator` or a `Branch`.

        Raises:
            InputError: see `distribution`.
        """
        return self._sample(*_checked(p, q, drafts), rng)

    @abstractmethod
    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """`distribution`, unchecked. The caller may change the result."""

    @abstractmethod
    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """`acceptance`, unchecked."""

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: RandomSource) -> int:
        """`sample`, unchecked: a draw from `_distribution`.

        A solver that can draw without computing the whole distribution overrides this method.
        """
        return draw(self._distribution(p, q, drafts), rng)


@checked
def _checked(p: Vector, q: Vector, drafts: Iterable[int]) -> tuple[Vector, Vector, list[int]]:
    """The distributions p and q, see `as_distribution`, and the drafts as ints, after a check of all arguments."""
    p, q = _pair(p, q)
    tokens = [int(token) for token in drafts]
    check_tokens(tokens, q)
    return p, q, tokens


def _pair(p: Vector, q: Vector) -> tuple[Vector, Vector]:
    p, q = as_distribution("p", p), as_distribution("q", q)
    if len(p) != len(q):
        raise InputError(f"p and q must be distributions on one vocabulary, got {len(p)} and {len(q)} tokens")
    return p, q


def distribution_of_tries(tries: Iterable[tuple[int, Any]], after: Vector) -> Vector:
    """Distribution of the emitted token: each of `tries`, (token, probability to accept it), is tried in order.

    If none is accepted, the token is drawn from `after`, which is changed in place and returned.
    """
    missed, hits = 1, []
    for token, accept in tries:
        hits.append((token, missed * accept))
        missed = missed * (1 - accept)
    after *= missed
    for token, chance in hits:
        after[token] += chance
    return after


def estimated_acceptance(
    solver: Solver, p: Vector, q: Vector, k: int, *, samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean and standard error of the probability that the emitted token is among k drafts drawn by `solver.rule`.

    The estimate is unbiased: only the drafts are drawn, and given the drafts the probability is exact. The standard
    error is 0 if this probability is the same for all drawn drafts.

    Args:
        solver: the node solver.
        p: (V,) the target's distribution.
        q: (V,) the draft's distribution.
        k: number of drafts at the node.
        samples: number of times that k drafts are drawn, at least 2.
        rng: random source of the draws.

    Raises:
        InputError: fewer than 2 samples, p or q is not a distribution, their lengths differ, or k < 1.
    """
    if samples < 2:
        raise InputError(f"samples must be at least 2 for a standard error, got {samples}")
    chances = []
    for _ in range(samples):
        drafts = solver.rule.children(q, k, rng)
        distribution: Any = solver.distribution(p, q, drafts)
        chances.append(float(sum(distribution[token] for token in set(drafts))))
    return float(np.mean(chances)), float(np.std(chances, ddof=1) / np.sqrt(samples))
