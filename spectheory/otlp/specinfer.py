"""SpecInfer: the drafts are tried in random order, each against what the rejections before it have left of p."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, accept_ratio, excess, normalised
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class SpecInfer(Solver):
    """Accept a draft x picked at random with probability min(1, p(x) / q(x)); else p becomes N((p - q)+) and the next.

    Lossless for independent drafts: each round is rejection sampling of what is then p by a fresh draw from q, so the
    token it accepts and the residual it leaves add up to that p. A repeated token is tried again: it is rejected
    surely, but its round still updates p, and to skip it is lossy.

    Acceptance: 1 - prod_i (1 - sum min(p_i, q)) over the k rounds. The last term of Algorithm 9 of Dynamic Delayed Tree
        Expansion, for a residual token that is a rejected draft, is always 0: p_k(t) > 0 forces p_i(t) > q(t) before.
    Cost: O(kV), and at most 2^k steps on the host for `distribution`, over multisets of drafts left.
    Source: arXiv 2305.09781, Algorithm 2. Algorithm 14 of Dynamic Delayed Tree Expansion is off by one: its line 12
        needs the accept ratio of the round that follows (for X = (0, 0), thirds, it gives 3/4 instead of 1/2).
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.IID, DrawRule.IID_APART)

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution.

        The accept ratios of k drafts in k rounds are read back from a device at once, in one wait: the sum over orders
        visits up to 2^k states, each far cheaper on the host than a kernel launch.
        """
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

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: Any) -> int:
        """See Solver.sample."""
        left, mass = p, 1
        for token in rng.permutation(drafts).tolist():
            if rng.random() * (q[token] * mass) < left[token]:
                return token
            left, mass = after_rejection(left, q, mass)
        return draw(left, rng, otherwise=p)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """See Solver.acceptance."""
        left, mass = p, 1
        for _ in range(k):
            left, mass = after_rejection(left, q, mass)
        return 1 - mass


def after_rejection(left: Vector, q: Vector, scale: Any) -> tuple[Vector, Any]:
    """(left - scale q)+ and its sum: what a rejected draw from q leaves of p, times the chance of coming so far.

    Without normalisation between rounds nothing is divided by 0 where p = q, and `left` stays below p.
    """
    left = excess(left, q, scale)
    return left, left.sum()


def _orders(drafts: list[int], ratios: list[list[Any]]) -> tuple[dict[int, Any], Any]:
    """Chance that each token is accepted, and that none is, over all orders in which the drafts may be tried."""
    column = {token: j for j, token in enumerate(drafts)}
    states: dict[tuple[int, ...], Any] = {tuple(sorted(drafts)): 1}
    hits: dict[int, Any] = dict.fromkeys(drafts, 0)
    for ratio in ratios:
        after: dict[tuple[int, ...], Any] = {}
        for remaining, weight in states.items():
            for j, token in enumerate(remaining):
                accept = ratio[column[token]]
                hits[token] += weight * accept / len(remaining)
                rest = remaining[:j] + remaining[j + 1 :]
                after[rest] = after.get(rest, 0) + weight * (1 - accept) / len(remaining)
        states = after
    return hits, states[()]
