"""`UniVer`: the weights of a tree's nodes, shared by the solver that is optimal for top-(k - 1) + 1 drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectheory.core.draft import Draft, DrawRule
from spectheory.otlp import GreedyTopK
from spectheory.verify.bottom_up import BottomUp
from spectheory.verify.outcome import Outcome
from spectheory.verify.verifier import Verifier


@dataclass(frozen=True)
class UniVer(Verifier):
    """`BottomUp` with `GreedyTopK`: at a node of weight w, the drawn child x gets a = min(1, w p(x) / q'(x)).

    T is the set of the k - 1 most probable tokens of q, which are children without a draw; q' is q restricted to the
    other tokens, and Z = sum (q' - w p)+. A child t of T gets (1 - a) w p(t) / Z, the node itself
    (1 - a) (w p(y) - q'(y))+ / Z for each other next token y, and (1 - a) (1 - w) / Z rejects the node. These are the
    probabilities to accept each child, with what is below it; `BottomUp` turns them into coins from the leaves up.

    The paper's text was not at hand. This is reconstructed from its abstract (optimal transport at each node, scaled by
    the probability that the prefix is accepted) and from a public port, a Triton kernel in a fork of SGLang, which
    shares the mass of a node with these formulas. The proof is that of `BottomUp`, and the certificate is exact. The
    acceptance of one node is the optimum for this draw rule, with w p for p. The port judges the drawn child wherever
    its index puts it; here the children are judged in draw order, the drawn child last. Any order that does not depend
    on what is below the children is lossless.

    Acceptance: sum_n depth(n) a_n prod_(m before n) (1 - a_m) tokens given the draft, nodes in the order of judging and
        a_n the coins; for one level p(T) + sum min(p, q'), as for `GreedyTopK`.
    Cost: O(n V) for n nodes.
    Source: arXiv 2605.04543 (Weng, Hu, Yairi), from its abstract and a public port.
    """

    solver: GreedyTopK = field(default_factory=GreedyTopK, init=False, repr=False)

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """TOP_K_THEN_ONE; with one child at each node, this is a chain of draws from q."""
        return self.solver.rules

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        return BottomUp(self.solver)._outcome(draft, p)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        return BottomUp(self.solver)._sample(draft, p, rng)
