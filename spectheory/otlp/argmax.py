"""`ArgMax`, the solver of greedy decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, zero_of, zeros_like
from spectheory.core.draft import DrawRule, top_tokens
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class ArgMax(Solver):
    """Emit argmax p, the most probable token of the target (of equal ones the lowest). It keeps greedy decoding, not p.

    Acceptance: 1 if argmax p is among the k most probable tokens of q, else 0.
    Cost: O(V).
    Source: greedy verification, as in Goose, Algorithm 3.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.TOP_K, *(rule for rule in DrawRule if rule is not DrawRule.TOP_K))

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        distribution = zeros_like(p)
        distribution[int(p.argmax())] += 1
        return distribution

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        return zero_of(p) + (int(p.argmax()) in top_tokens(q, k))
