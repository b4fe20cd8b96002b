"""What every node solver offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, final

from spectheory.core.arrays import Vector, check_distribution, check_tokens
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError


class Solver(ABC):
    """A node solver. It is lossless when the drafted tokens were drawn by one of `rules`; `rule` is the first.

    `distribution`, `acceptance` and `sample` check their arguments once, then call the methods of the same name with a
    leading underscore, which a solver defines and which callers that have checked may call.
    """

    rules: ClassVar[tuple[DrawRule, ...]]
    most_drafts: ClassVar[int | None] = None
    """How many drafts at a node it takes at most; None for any number."""
    small_vocabulary_only: ClassVar[str] = ""
    """Why it is of no use on the vocabulary of a language model; empty where it is."""

    def variants(self) -> tuple[Solver, ...]:
        """The same solver in other settings that are certified and measured with it."""
        return ()

    def drafts_in_reach(self, vocabulary: int) -> int | None:
        """The number of drafts up to which `acceptance` takes seconds at most on so many tokens; None for any."""
        return self.most_drafts

    @property
    def rule(self) -> DrawRule:
        """The draw rule that its acceptance is stated for."""
        return self.rules[0]

    @final
    def distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """Distribution of the emitted token given the drafts, shape (V,): the branching probabilities of the papers.

        Args:
            p: (V,) the target's distribution.
            q: (V,) the draft's distribution.
            drafts: (k,) drafted tokens in draw order with repeats, k >= 1.

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
    def sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: Any) -> int:
        """Draw the emitted token given the drafts; `rng` is a `numpy.random.Generator` or a `Replay`.

        Raises:
            InputError: as for `distribution`.
        """
        return self._sample(p, q, _checked(p, q, drafts), rng)

    @abstractmethod
    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """`distribution`, unchecked: the branching probabilities of all tokens. The caller may change the result."""

    @abstractmethod
    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """`acceptance`, unchecked."""

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: Any) -> int:
        """`sample`, unchecked: a draw from `_distribution`.

        A solver whose procedure mostly ends before it needs the whole distribution overrides it.
        """
        return draw(self._distribution(p, q, drafts), rng)


def _checked(p: Vector, q: Vector, drafts: Sequence[int]) -> list[int]:
    """The drafts as ints."""
    _check_pair(p, q)
    tokens = [int(token) for token in drafts]
    check_tokens(tokens, q)
    return tokens


def _check_pair(p: Vector, q: Vector) -> None:
    check_distribution("p", p)
    check_distribution("q", q)
    if len(p) != len(q):
        raise InputError(f"p and q must be distributions on one vocabulary, got {len(p)} and {len(q)} tokens")
