"""`Traversal`, traversal verification: children are judged before their parent, and a rejection updates the parent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, accept_ratio, one_of, without
from spectheory.core.draft import Draft, DrawRule
from spectheory.verify.outcome import Outcome, coin, judged_outcome, judged_sample, shortfall
from spectheory.verify.verifier import Verifier


@dataclass(frozen=True)
class Traversal(Verifier):
    """Judge the children of a node in order of first appearance, then the node. The first accepted node ends the path.

    Each node has a state (a, p, q). A child x starts with a_x = min(1, a p(x) / q(x)). If x and all nodes below it are
    rejected, the state of the parent becomes a' = S / (S + 1 - a) with S = sum (a p - q)+, p' = N((a p - q)+), and
    q' = N(q without x), or q' = q under IID_APART. After its last child, a node is accepted with probability a (the
    root with probability 1), and the next token is drawn from its current p.

    Lossless: given the rejections so far, the next distinct child is a draw from the current q, and the state has
    exactly the mass of the target that is still missing. It would be lossy to join equal draws without updating q.

    Acceptance: sum_n depth(n) a_n prod_(m before n) (1 - a_m) tokens given the draft, nodes in the order of judging.
    Cost: O(n V) for n nodes.
    Source: arXiv 2505.12398, Section 3 and Theorem 3.3.
    """

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """The rules under which the next distinct child is a draw from q without the earlier children."""
        return (DrawRule.IID, DrawRule.NO_REPLACEMENT, DrawRule.IID_APART)

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        return Outcome(draft.tree, *judged_outcome(_judged(draft, p), p))

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        return judged_sample(_judged(draft, p), rng)


def _judged(draft: Draft, p: Any) -> Iterator[tuple[int, Any, Vector]]:
    """Yield (node, probability to accept it after the earlier rejections, next-token distribution), in order."""
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
    """The state of a node while its children are judged: weight a, current p and q, and children still to judge."""

    def __init__(self, draft: Draft, node: int, weight: Any, p: Vector) -> None:
        self.node, self.weight, self.p, self.q = node, weight, p, draft.q[node]
        self.waiting = list(dict.fromkeys(draft.draws[node]))[::-1]

    def reject(self, token: int, apart: bool) -> None:
        """Update the state after the child with `token` and all nodes below it were rejected."""
        lacking, self.p = shortfall(self.weight, self.p, self.q)
        self.weight = coin(lacking, self.weight)
        self.q = self.q if apart else without(self.q, token)
