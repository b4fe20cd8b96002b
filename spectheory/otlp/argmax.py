"""The solver of greedy decoding: the target's most probable token, whatever was drafted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from spectheory.arrays import Vector
from spectheory.draft import DrawRule
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class ArgMax(Solver):
    """Emit argmax p; of equal maxima the lowest token. Any drafts will do: it keeps greedy decoding, not p."""

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.TOP_K, DrawRule.IID, DrawRule.NO_REPLACEMENT)

    def law(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.law."""
        law = p * 0
        law[int(p.argmax())] += 1
        return law
