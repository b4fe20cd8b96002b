"""GreedyTopK: the k - 1 tokens of highest q are drafted outright, and one more is drawn from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, copy_of, normalised, set_zero
from spectheory.core.draft import DrawRule
from spectheory.otlp.naive import Naive
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class GreedyTopK(Solver):
    """Accept the drawn draft x with probability min(1, p(x) / q'(x)), else emit a token of N((p - q')+).

    T are the tokens drafted outright and q' is q restricted to the others. Lossless because this is rejection sampling
    of p by a draw from q'; and since q' = 0 on T, a rejection hits T with all of p there. Where q has at most k tokens,
    the last of them is drawn with certainty, which is the same distribution.

    Acceptance: p(T) + sum min(p, q'), the most that any solver reaches on these drafts.
    Cost: O(V) for the distribution, O(kV) for the acceptance.
    Source: arXiv 2502.18779, Section 5.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.TOP_K_THEN_ONE,)

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        *top, drawn = drafts
        rest = copy_of(q)
        for token in top:
            set_zero(rest, token)
        return Naive()._distribution(p, normalised(rest, otherwise=rest), [drawn])

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """See Solver.acceptance."""
        outright, rest = 0, copy_of(q)
        for _ in range(k - 1):
            top = rest.argmax()
            outright = outright + p[top] * (rest[top] > 0)
            set_zero(rest, top)
        return outright + p.clip(max=normalised(rest, otherwise=rest)).sum()
