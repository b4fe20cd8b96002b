"""Traversal verification: nodes are judged leaves first, and each rejection updates the state of the parent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, accept_ratio, one_of, without
from spectheory.core.chance import draw
from spectheory.core.draft import Draft, DrawRule
from spectheory.verify.outcome import Outcome
from spectheory.verify.shortfall import coin, shortfall
from spectheory.verify.verifier import Verifier


@dataclass(frozen=True)
class Traversal(Verifier):
    """Judge the children of a node in order of first appearance, then the node; the first accepted keeps its path.

    A node carries (a, p, q). A child x is visited with a_x = min(1, a p(x) / q(x)); each child rejected with all that
    is below it turns the node's state into a' = S / (S + 1 - a) with S = sum (a p - q)+, p' = N((a p - q)+), and
    q' = N(q without x), or q' = q where coinciding draws are nodes of their own. After its last child the node is
    accepted with probability a (the root surely), and the next token has its p of that time.

    Lossless: given the rejections so far the next distinct child is a draw from the q of that time, and the state
    carries exactly the mass that the target still lacks there. Merging draws and leaving q as it is would be lossy.

    Acceptance: sum_n depth(n) a_n prod_(m before n) (1 - a_m) tokens given the draft, nodes in the order of judgement.
    Cost: O(n V) for n nodes.
    Source: arXiv 2505.12398, Section 3 and Theorem 3.3.
    """

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """Those under which the next distinct child is a draw from what is left of q."""
        return (DrawRule.IID, DrawRule.NO_REPLACEMENT, DrawRule.IID_APART)

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        """See Verifier.outcome."""
        left = one_of(p[0])
        stop, next_token = [left] * (draft.tree.budget + 1), list(p)
        for node, accepted, distribution in _judged(draft, p):
            stop[node], next_token[node] = left * accepted, distribution
            left = left * (1 - accepted)
        return Outcome(draft.tree, stop, next_token)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        """See Verifier.sample; nothing behind the accepted node is evaluated."""
        node, distribution = next(
            (node, distribution) for node, accepted, distribution in _judged(draft, p) if rng.random() < accepted
        )
        return node, draw(distribution, rng)


def _judged(draft: Draft, p: Any) -> Iterator[tuple[int, Any, Vector]]:
    """(node, chance to accept it given that none before was, distribution of the token behind it) in order of
    judgement.
    """
    apart = draft.rule is DrawRule.IID_APART
    way = [_Visit(draft, 0, one_of(p[0]), p[0])]
    while way:
        here = way[-1]
        if here.waiting:
            child = here.waiting.pop()
            token = int(draft.tokens[child])
            accepted = accept_ratio(here.weight * here.p[token], here.q[token])
            way.append(_Visit(draft, child, accepted, p[child]))
            continue
        way.pop()
        yield here.node, here.weight if way else 1, here.p
        if way:
            way[-1].reject(int(draft.tokens[here.node]), apart)


class _Visit:
    """The state of a node while its children are judged: its weight, what p and q are by now, children to come."""

    def __init__(self, draft: Draft, node: int, weight: Any, p: Vector) -> None:
        self.node, self.weight, self.p, self.q = node, weight, p, draft.q[node]
        self.waiting = list(dict.fromkeys(draft.draws[node]))[::-1]

    def reject(self, token: int, apart: bool) -> None:
        """Go on after a child, and all below it, was rejected."""
        lacking, self.p = shortfall(self.weight, self.p, self.q)
        self.weight = coin(lacking, self.weight)
        self.q = self.q if apart else without(self.q, token)
