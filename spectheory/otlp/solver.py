"""What every node solver offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, final

from spectheory.core.arrays import Vector, check_law, check_tokens
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError


class Solver(ABC):
    """A node solver. It is lossless when the drafted tokens were drawn by one of `rules`; `rule` is the first.

    `law` and `acceptance` check what they are given; `branching` and `accepted` are the bodies behind them, for
    callers that have checked.
    """

    rules: ClassVar[tuple[DrawRule, ...]]

    @property
    def rule(self) -> DrawRule:
        """The draw rule that its acceptance is stated for."""
        return self.rules[0]

    @final
    def law(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """Law of the emitted token given the drafts: the branching probabilities of all tokens, shape (V,).

        Args:
            p: (V,) the target's law.
            q: (V,) the draft's law.
            drafts: (k,) drafted tokens in draw order with repeats, k >= 1.

        Raises:
            InputError: p or q is no law, their lengths differ, or a draft is outside the vocabulary or has q = 0.
        """
        _check_pair(p, q)
        tokens = [int(token) for token in drafts]
        check_tokens(tokens, q)
        return self.branching(p, q, tokens)

    @final
    def acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """Probability that the emitted token is among k >= 1 drafts drawn by `rule`.

        Raises:
            InputError: p or q is no law, their lengths differ, or k < 1.
        """
        _check_pair(p, q)
        if k < 1:
            raise InputError(f"k must be at least 1 draft, got {k}")
        return self.accepted(p, q, k)

    @abstractmethod
    def branching(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """`law`, unchecked. The result is the caller's to change."""

    def emit(self, p: Vector, q: Vector, drafts: Sequence[int], rng: Any) -> int:
        """A token of `branching`, from a `numpy.random.Generator` or a `Replay`.

        A solver whose procedure mostly ends before it needs the whole law does without it here.
        """
        return draw(self.branching(p, q, drafts), rng)

    @abstractmethod
    def accepted(self, p: Vector, q: Vector, k: int) -> Any:
        """`acceptance`, unchecked."""


def _check_pair(p: Vector, q: Vector) -> None:
    check_law("p", p)
    check_law("q", q)
    if len(p) != len(q):
        raise InputError(f"p and q must be laws on one vocabulary, got {len(p)} and {len(q)} tokens")
