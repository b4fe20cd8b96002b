"""`Naive`, rejection sampling with the first draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import RandomSource, Vector, accept_ratio, excess, power, residual
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class Naive(Solver):
    """Accept the first draft x with probability min(1, p(x) / q(x)), else emit a token of N((p - q)+).

    Lossless if the first draft is a draw from q, whatever the other drafts are: averaged over x, the distribution of
    the emitted token is min(p, q) + (1 - sum min(p, q)) N((p - q)+) = p. The token of the residual is accepted if it is
    one of the other drafts.

    Acceptance: 1 - sum_t (p - q)+(t) (1 - q(t))^(k - 1), which is sum min(p, q) for one draft.
    Cost: O(V).
    Source: arXiv 2211.17192, Algorithm 1; for trees Dynamic Delayed Tree Expansion, B.2 and Algorithms 7 and 12.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.IID, DrawRule.IID_APART, DrawRule.NO_REPLACEMENT, DrawRule.HUB)

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        first = drafts[0]
        accepted = accept_ratio(p[first], q[first])
        distribution = residual(p, q)
        distribution *= 1 - accepted
        distribution[first] += accepted
        return distribution

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: RandomSource) -> int:
        first = drafts[0]
        if rng.random() * q[first] < p[first]:
            return first
        return draw(p, rng, less=q, otherwise=p)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        return 1 - excess(p, q) @ power(1 - q, k - 1)
