"""`SpecInfer`, which tries the drafts in random order, each against the residual after the earlier rejections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import RandomSource, Vector, accept_ratio, excess, normalised, zeros_like
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class SpecInfer(Solver):
    """Try the drafts in random order: accept draft x with probability min(1, p(x) / q(x)).

    After a rejection p becomes N((p - q)+), and the next draft is tried. If all are rejected, the token is drawn from
    the last p.

    Lossless for independent drafts: each round is rejection sampling of the current p with a new draw from q. A
    repeated token must be tried again. It is always rejected, but its round updates p; skipping it is lossy.

    Acceptance: 1 - prod_i (1 - sum min(p_i, q)) over the k rounds, with p_i the p of round i. The last term of
        Algorithm 9 of Dynamic Delayed Tree Expansion, for a residual token that is a rejected draft, is always 0,
        because p_k(t) > 0 implies p_i(t) > q(t) in all earlier rounds.
    Cost: O(kV), and for `distribution` k^2 steps on the host.
    Source: arXiv 2305.09781, Algorithm 2. Line 12 of Algorithm 14 of Dynamic Delayed Tree Expansion needs a_(i+1), as
        a_0 is undefined (as a_1 it gives 3/4, not 1/2, for p = (1/3, 2/3), q = (2/3, 1/3), X = (0, 0)).
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.IID, DrawRule.IID_APART)

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """The accept ratios of k drafts in k rounds are read back from a device together."""
        rounds, drafted = len(drafts), q[list(drafts)]
        ratios = (q[list(drafts) * rounds] / 1).reshape(rounds, rounds)
        left, mass = p, 1
        for i in range(rounds):
            ratios[i] = accept_ratio(left[list(drafts)], drafted * mass)
            left, mass = after_rejection(left, q, mass)
        hits, missed = _orders(list(drafts), ratios.tolist())
        distribution = normalised(left, otherwise=p)
        distribution *= missed
        for token, chance in hits.items():
            distribution[token] += chance
        return distribution

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: RandomSource) -> int:
        left, mass = p, 1
        for token in rng.permutation(drafts).tolist():
            if rng.random() * (q[token] * mass) < left[token]:
                return token
            left, mass = after_rejection(left, q, mass)
        return draw(left, rng, otherwise=p)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        left, mass = p, 1
        for _ in range(k):
            left, mass = after_rejection(left, q, mass)
        return 1 - mass


def after_rejection(left: Vector, q: Vector, scale: Any) -> tuple[Vector, Any]:
    """(left - scale q)+ and its sum: the residual after a rejected draw from q, not normalised.

    The sum is the probability that this round is reached. Without normalisation nothing is divided by 0 if p = q, and
    `left` stays below p.
    """
    left = excess(left, q, scale)
    return left, left.sum()


def _orders(drafts: list[int], ratios: list[list[Any]]) -> tuple[dict[int, Any], Any]:
    """Probability that each token is accepted, and that no token is, over all orders of the drafts.

    The accept ratio of a draft is 1 in its first rounds, then once below 1, and 0 afterwards, because its residual is
    then 0. So of the drafts whose ratios have fallen below 1 before round i, exactly i were rejected in the rounds
    before, whichever they are. The others are alike: each is rejected for certain.
    """
    fall = [next((i for i, ratio in enumerate(ratios) if ratio[j] < 1), len(ratios)) for j in range(len(drafts))]
    hits: dict[int, Any] = dict.fromkeys(drafts, 0)
    missed = zeros_like(ratios[0][0]) + 1
    for i, ratio in enumerate(ratios):
        untried = len(drafts) - i
        for token, accept in zip(drafts, ratio, strict=True):
            hits[token] += missed * accept / untried
        rejected = sum(1 - ratio[j] for j, first in enumerate(fall) if first == i)
        missed = missed * (sum(first < i for first in fall) - i + rejected) / untried
    return hits, missed
