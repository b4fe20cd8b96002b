"""NaiveTree: rejection sampling on the first draft; the residual may still hit one of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.arrays import Vector, accept_ratio, positive_part, residual
from spectheory.draft import DrawRule
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class Naive(Solver):
    """Accept the first draft x with probability min(1, p(x) / q(x)), else emit a token of N((p - q)+).

    Lossless whenever the first draft is a draw from q, whatever the others are: the emitted law given x averages
    to min(p, q) + (1 - sum min(p, q)) N((p - q)+) = p.

    Source: arXiv 2211.17192, Algorithm 1; for trees Dynamic Delayed Tree Expansion, B.2 and Algorithm 12.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.IID, DrawRule.NO_REPLACEMENT)

    def law(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.law. O(V)."""
        if len(drafts) == 0:
            return p
        first = int(drafts[0])
        accepted = accept_ratio(p[first], q[first])
        law = residual(p, q) * (1 - accepted)
        law[first] += accepted
        return law

    def acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """Probability that the emitted token is among k >= 1 i.i.d. drafts, exact. O(V).

        sum_t min(p, q)(t) + sum_t (p - q)+(t) (1 - (1 - q(t))^(k - 1)).
        """
        gain = positive_part(p - q)
        return (p - gain).sum() + (gain * (1 - (1 - q) ** (k - 1))).sum()
