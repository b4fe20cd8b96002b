"""`SpecHub`, for two drafts, one of which is the hub: the most probable token of q."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, accept_ratio, copy_of, excess, normalised, positive_part, set_zero
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.greedy_top_k import GreedyTopK
from spectheory.otlp.naive import Naive
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class SpecHub(Solver):
    """Transport of the mass of draft pairs to tokens: pairs (x, hub) first, then pairs (hub, x); x before hub.

    A pair consists of the hub and a token x that is not the hub. x is tried first. It is accepted with probability
    min(1, p(x) / probability of the pair), where p(x) for pairs (hub, x) is what pairs (x, hub) have not used. Then the
    hub is tried, against the mass that was not placed on any x. The rest goes to N(unused part of p). Lossless, because
    no token gets more than its p. A single draft is treated as in `Naive`; more than 2 are refused.

    Acceptance: p(hub) + sum_(x not hub) min(p(x), q(x) / (1 - q(hub))) for two drafts, as for GreedyTopK: the sets of
        drafts have the same distribution, and both solvers are optimal for it. sum min(p, q) for one draft.
    Cost: O(V).
    Source: arXiv 2411.05289.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.HUB,)
    most_drafts: ClassVar[int | None] = 2

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """Two probabilities are read back from a device, to find which of the two drafts is the hub."""
        _check_two(len(drafts))
        if len(drafts) == 1:
            return Naive()._distribution(p, q, drafts)
        hub = min(drafts, key=lambda token: (-q[token], token))
        x = drafts[0] + drafts[1] - hub
        straight = copy_of(q)  # probability of the pair (x, hub), for each x
        set_zero(straight, hub)
        reverse = normalised(straight, otherwise=straight) * q[hub]  # probability of the pair (hub, x), for each x
        left = excess(p, straight)
        set_zero(left, hub)
        unplaced = excess(straight, p).sum()
        unplaced_reverse = excess(reverse, left).sum()
        hub_left = positive_part(p[hub] - unplaced_reverse)
        if drafts[0] == hub:
            accept, accept_hub = accept_ratio(left[x], reverse[x]), accept_ratio(p[hub], unplaced_reverse)
        else:
            accept, accept_hub = accept_ratio(p[x], straight[x]), accept_ratio(hub_left, unplaced)
        left = excess(left, reverse)
        left[hub] = positive_part(hub_left - unplaced)
        distribution = normalised(left, otherwise=p)
        distribution *= (1 - accept) * (1 - accept_hub)
        distribution[x] += accept
        distribution[hub] += (1 - accept) * accept_hub
        return distribution

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        _check_two(k)
        return GreedyTopK()._acceptance(p, q, k)


def _check_two(k: int) -> None:
    if k > 2:
        raise InputError(f"SpecHub drafts at most 2 tokens at a node, got {k}: use GreedyTopK for more")
