"""`BottomUp`, a node solver applied to a tree whose children are judged before their parent, and `UniVer`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, copy_of, extended, normalised, one_of, set_zero, zero_of
from spectheory.core.draft import Draft, DrawRule
from spectheory.otlp import GreedyTopK, Solver
from spectheory.verify.outcome import Outcome, judged_outcome, judged_sample, share
from spectheory.verify.verifier import Verifier


@dataclass(frozen=True)
class BottomUp(Verifier):
    """Share the weight of a node among its children with a node solver, and judge the children before the node.

    A node of weight w gives the solver the distribution (w p, 1 - w) on the tokens and one more outcome, "reject",
    which is never drafted. The solver returns a distribution B on both. Child x or a node below it is accepted with
    probability B(x). The node itself is accepted with the sum of B over the tokens that are not drafted, and these are
    then the probabilities of the next token. B(reject) rejects the node. The root has the weight 1. The children are
    judged in draw order, each after all nodes below it, so the weight of child j is
    B(x_j) / (1 - B(x_1) - ... - B(x_(j-1))).

    Lossless if the solver is, for the draft's rule: over all drafts, the solver emits the tokens after a node of weight
    w with the mass w p. By induction from the leaves, the node and what is below it supply exactly this mass.

    `BottomUp(Naive())` is `Block` on chains, `BottomUp(RRS())` is `Traversal` except under IID_APART, where RRS skips
    repeats, and `BottomUp(GreedyTopK())` is `UniVer`. `BottomUp(SpecTr())` is Block with SpecTr for independent draws.

    Acceptance: sum_n depth(n) a_n prod_(m before n) (1 - a_m) tokens given the draft, nodes in the order of judging and
        a_n the probability of accepting n when it is judged.
    Cost: one distribution of the solver for each inner node, and O(n V) for n nodes.
    Source: reconstructed from arXiv 2605.04543 (see `UniVer`), for any node solver.
    """

    solver: Solver

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """The draw rules of the solver."""
        return self.solver.rules

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        return Outcome(draft.tree, *judged_outcome(_judged(self.solver, draft, p), p))

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        return judged_sample(_judged(self.solver, draft, p), rng)


@dataclass(frozen=True)
class UniVer(BottomUp):
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

    solver: Solver = field(default_factory=GreedyTopK, init=False, repr=False)


def _judged(solver: Solver, draft: Draft, p: Any) -> Iterator[tuple[int, Any, Vector]]:
    """Yield (node, probability to accept it after the earlier rejections, next-token distribution), in order."""
    way = [_Visit(solver, draft, 0, one_of(p[0]), p[0])]
    while way:
        if way[-1].waiting:
            child, weight = way[-1].waiting.pop()
            way.append(_Visit(solver, draft, child, weight, p[child]))
        else:
            here = way.pop()
            yield here.node, here.accepted if way else 1, here.next_token


class _Visit:
    """A node whose children are judged: children still to judge with their weights, then the node's own coin."""

    def __init__(self, solver: Solver, draft: Draft, node: int, weight: Any, p: Vector) -> None:
        self.node, self.accepted, self.next_token = node, weight, p
        self.waiting: list[tuple[int, Any]] = []
        if drafts := draft.drafted(node):
            target, drafted = extended(p * weight, 1 - weight), extended(draft.q[node], zero_of(p))
            shared = solver._distribution(target, drafted, drafts)
            masses = []
            for child in dict.fromkeys(draft.draws[node]):
                token = int(draft.tokens[child])
                masses.append((child, copy_of(shared[token])))
                set_zero(shared, token)
            own = shared[:-1].sum()
            self.next_token = normalised(shared[:-1], otherwise=p)
            left = own + shared[-1]
            self.accepted = share(own, left)
            for child, mass in reversed(masses):  # sums from the last child on, because differences from 1 would round
                left = left + mass
                self.waiting.append((child, share(mass, left)))
