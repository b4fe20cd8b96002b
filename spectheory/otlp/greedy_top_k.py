"""`GreedyTopK`, for drafts that are the k - 1 most probable tokens of q and one draw from the other tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, copy_of, normalised, set_zero, without
from spectheory.core.draft import DrawRule
from spectheory.otlp.naive import Naive
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class GreedyTopK(Solver):
    """Accept the drawn draft x with probability min(1, p(x) / q'(x)), else emit a token of N((p - q')+).

    T is the set of the k - 1 most probable tokens of q, which are drafted without a draw, and q' is q restricted to the
    other tokens. Lossless, because this is rejection sampling of p with a draw from q'. Since q' = 0 on T, the residual
    keeps all of p there, and its tokens of T are accepted too. If q has at most k tokens, the draw is certain, and the
    same formulas hold.

    Acceptance: p(T) + sum min(p, q'), the maximum over all solvers for these drafts.
    Cost: O(V) for the distribution, O(kV) for the acceptance.
    Source: arXiv 2502.18779, Section 5.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.TOP_K_THEN_ONE,)

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        *top, drawn = drafts
        return Naive()._distribution(p, without(q, top), [drawn])

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        outright, rest = 0, copy_of(q)
        for _ in range(k - 1):
            top = rest.argmax()
            outright = outright + p[top] * (rest[top] > 0)
            set_zero(rest, top)
        return outright + p.clip(max=normalised(rest, otherwise=rest)).sum()
