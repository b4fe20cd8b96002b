"""`Solver`, the base class of node solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, final

from spectheory.core.arrays import Vector, check_distribution, check_tokens
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.random_source import RandomSource


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
        return self._distribution(p, q, _checked(p, q, drafts))

    @final
    def acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """Probability that the emitted token is among k >= 1 drafts drawn by `rule`.

        Raises:
            InputError: p or q is not a distribution, their lengths differ, or k < 1.
        """
        _check_pair(p, q)
        if k < 1:
            raise InputError(f"k must be at least 1 draft, got {k}")
        return self._acceptance(p, q, k)

    @final
    def sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: RandomSource) -> int:
        """Draw the emitted token given the drafts; `rng` is a `numpy.random.Generator` or a `Branch`.

        Raises:
            InputError: see `distribution`.
        """
        return self._sample(p, q, _checked(p, q, drafts), rng)

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


def _checked(p: Vector, q: Vector, drafts: Sequence[int]) -> list[int]:
    """The drafts as ints, after a check of all arguments."""
    _check_pair(p, q)
    tokens = [int(token) for token in drafts]
    check_tokens(tokens, q)
    return tokens


def _check_pair(p: Vector, q: Vector) -> None:
    check_distribution("p", p)
    check_distribution("q", q)
    if len(p) != len(q):
        raise InputError(f"p and q must be distributions on one vocabulary, got {len(p)} and {len(q)} tokens")
