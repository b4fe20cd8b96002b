"""What every node solver offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from spectheory.arrays import Vector
from spectheory.draft import DrawRule


class Solver(ABC):
    """A node solver. It is lossless when the drafted tokens were drawn by one of `rules`; `rule` is the first."""

    rules: ClassVar[tuple[DrawRule, ...]]

    @property
    def rule(self) -> DrawRule:
        """The draw rule that its acceptance is stated for."""
        return self.rules[0]

    @abstractmethod
    def law(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """Law of the emitted token given the drafts: the branching probabilities of all tokens.

        Args:
            p: (V,) the target's law.
            q: (V,) the draft's law.
            drafts: (k,) drafted tokens in draw order with repeats; k = 0 at a leaf.
        """
