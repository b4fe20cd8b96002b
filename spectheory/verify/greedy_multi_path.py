"""Greedy multi-path block verification: block verification of the most promising of K independent paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectheory.arrays import Vector
from spectheory.draft import Draft, DrawRule
from spectheory.verify.block import Block
from spectheory.verify.outcome import Outcome
from spectheory.verify.verifier import Verifier


@dataclass(frozen=True)
class GreedyMultiPathBlock(Verifier):
    """Of K i.i.d. paths take the lexicographically largest by rank of p / q, and verify it as Block does.

    Tokens are ranked by p / q, ties by token: one strict order, the same in the choice of the path and in its law. That
    law is autoregressive, q~(y) = [(A + P F(y))^K - (A + P F-(y))^K] / [(A + P)^K - A^K] at a node with A, P the
    probabilities that one path ranks below it, or passes through it, and F, F- the cumulated q with and without y.

    Lossless: the path taken has the law q~, whatever the strict order is, and Block is lossless for any draft law.
    Two orders for ties are lossy. A single draw at the nodes before the paths part is a trunk, with q~ = q.

    Acceptance: sum_i E[w_i] tokens as for Block, with q~ for q; not always more than Block keeps of one path.
    Cost: O(L V (log V + K)).
    Source: arXiv 2602.16961, and the code of its authors.
    """

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """Independent paths that share the nodes of their common beginnings."""
        return (DrawRule.IID,)

    def law_of(self, draft: Draft, p: Any) -> Outcome:
        """See Verifier.outcome."""
        one = p[0].sum() * 0 + 1
        paths, below = 1, one * 0
        way, laws = [0], []
        while drawn := draft.draws[way[-1]]:
            node = way[-1]
            paths = max(paths, len(drawn))
            place, under, upto = _ranked(p[node], draft.q[node])
            children = sorted(set(drawn))
            tokens = [int(draft.tokens[child]) for child in children]
            best = int(place[tokens].argmax())
            laws.append(_law_of_best(draft.q[node], under, upto, below, paths))
            if paths > 1:
                below = _mixed(below, under[tokens[best]]) / _mixed(below, upto[tokens[best]])
            way.append(children[best])
        stop, next_token = [one * 0] * (draft.tree.budget + 1), list(p)
        tokens = [int(draft.tokens[node]) for node in way[1:]]
        law = Block().path_law(tokens, [p[node] for node in way], laws)
        for node, chance, following in zip(way, *law, strict=True):
            stop[node], next_token[node] = chance, following
        return Outcome(draft.tree, stop, next_token)

    def _check(self, draft: Draft, p: Any) -> None:
        super()._check(draft, p)
        depth, paths = draft.tree.depth, 1
        hits = [1] + [0] * draft.tree.budget
        for node, drawn in enumerate(draft.draws):
            wanted = 0 if depth[node] == depth.max() else len(drawn) if paths == 1 else hits[node]
            if len(drawn) != wanted:
                raise ValueError(
                    f"draft must be i.i.d. paths of one length that share their common beginnings: {hits[node]} draws "
                    f"hit node {node}, which must have {wanted} draws below it, got {len(drawn)}; draft with "
                    "Paths(K, L, trunk) under DrawRule.IID"
                )
            paths = max(paths, len(drawn))
            for child in drawn:
                hits[child] += 1


def _ranked(p: Vector, q: Vector) -> tuple[Vector, Vector, Vector]:
    """(V,) place of each token in the order of p / q, ties by token, and q cumulated without and with the token."""
    ratio = p / (q + (q == 0))
    order = ratio.argsort()
    sorted_ratio, key = ratio[order], order * 1
    # a stable sort by hand: its argument has one name in NumPy and another in torch
    key[1:] += len(key) * (sorted_ratio[1:] != sorted_ratio[:-1]).cumsum(0)
    order = order[key.argsort()]
    cumulated, under, upto = q[order].cumsum(0), q * 0, q * 0
    under[order[1:]] = cumulated[:-1]
    upto[order] = cumulated
    return order.argsort(), under, upto


def _mixed(below: Any, cumulated: Any) -> Any:
    """(A + P F) / (A + P), for below = A / (A + P)."""
    return below + (1 - below) * cumulated


def _law_of_best(q: Vector, under: Vector, upto: Vector, below: Any, paths: int) -> Vector:
    """(V,) q~. Both differences of powers are divided by the difference of their bases, so that nothing cancels."""
    low, high = _mixed(below, under), _mixed(below, upto)
    return q * _quotient(high, low, paths) / _quotient(below * 0 + 1, below, paths)


def _quotient(high: Any, low: Any, exponent: int) -> Any:
    """(high^K - low^K) / (high - low) = sum_(j < K) high^j low^(K-1-j)."""
    total = tail = high * 0 + 1
    for _ in range(exponent - 1):
        tail = tail * low
        total = total * high + tail
    return total
