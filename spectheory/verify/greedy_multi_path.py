"""`GreedyMultiPathBlock`: block verification of one of K independent paths, chosen by p / q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from spectheory.core.arrays import Vector, copy_of, zero_of, zeros_like
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.errors import InputError
from spectheory.verify.block import Block
from spectheory.verify.outcome import Outcome
from spectheory.verify.verifier import Verifier


@dataclass(frozen=True)
class GreedyMultiPathBlock(Verifier):
    """Choose one of K i.i.d. paths, at each node by the highest p / q, and verify it with `Block`.

    The tokens of a node are in the order of p / q, equal ones in the order of tokens. The lexicographically largest
    path is chosen. The next token y of the chosen path has the distribution
    q~(y) = [(A + P F(y))^K - (A + P F-(y))^K] / [(A + P)^K - A^K] at a node, where A is the probability that a path is
    below the node in this order, P the probability that it passes through the node, F(y) the sum of q over the tokens
    up to y, and F-(y) = F(y) - q(y).

    Lossless: the chosen path has the distribution q~ for any strict order, the same in the choice and in q~, and
    `Block` is lossless for any distribution of the draft. Nodes with one draw above the paths are a trunk: q~ = q.

    Acceptance: sum_i E[w_i] tokens as for Block, with q~ instead of q. It can be below NSS, and Block of a single path:
        for p = q = (1/2, 1/2) and three paths of one token it is 5/8, with NSS 7/8, with one path 1.
    Cost: O(L V (log V + K)).
    Source: arXiv 2602.16961, and the code of its authors.
    """

    takes: ClassVar[Literal["trees", "paths", "chains"]] = "paths"

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """IID: independent paths; paths that begin with the same tokens share nodes."""
        return (DrawRule.IID,)

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        way, tokens, distributions = _best_path(draft, p)
        stop, next_token = [zero_of(p[0])] * (draft.tree.budget + 1), list(p)
        distribution = Block()._path_outcome(tokens, [p[node] for node in way], distributions)
        for node, chance, following in zip(way, *distribution, strict=True):
            stop[node], next_token[node] = chance, following
        return Outcome(draft.tree, stop, next_token)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        """See Verifier.sample; the nodes before the last accepted node are not verified."""
        way, tokens, distributions = _best_path(draft, p)
        accepted, following = Block()._path_sample(tokens, [p[node] for node in way], distributions, rng)
        return way[accepted], following

    def _check(self, draft: Draft) -> None:
        super()._check(draft)
        depth, paths = draft.tree.depth, 1
        hits = [1] + [0] * draft.tree.budget
        for node, drawn in enumerate(draft.draws):
            wanted = 0 if depth[node] == depth.max() else len(drawn) if paths == 1 else hits[node]
            if len(drawn) != wanted:
                raise InputError(
                    f"draft must be i.i.d. paths of one length: node {node} was drawn {hits[node]} times and must have "
                    f"{wanted} draws below it, got {len(drawn)}; draft with Paths(K, L, trunk) under DrawRule.IID"
                )
            paths = max(paths, len(drawn))
            for child in drawn:
                hits[child] += 1


def _best_path(draft: Draft, p: Any) -> tuple[list[int], list[int], list[Vector]]:
    """The chosen path: its nodes, its tokens below the root, and q~ for each of these tokens given the earlier ones.

    `below` is A / (A + P). `low` and `high` are (A + P F-) / (A + P) and (A + P F) / (A + P), in the order of tokens.
    The differences of powers in q~ are computed by `_quotient`, in which nothing cancels.
    """
    paths, below = 1, zero_of(p[0])
    way, tokens, distributions = [0], [], []
    while drawn := draft.draws[node := way[-1]]:
        paths, q = max(paths, len(drawn)), draft.q[node]
        order = _order(p[node] / (q + (q == 0)))
        place = {child: int(((order == draft.tokens[child]) * 1).argmax()) for child in drawn}
        best = max(place, key=place.__getitem__)
        high = below + (1 - below) * q[order].cumsum(0)
        low = copy_of(high)
        low[0], low[1:] = below, high[:-1]
        distribution = zeros_like(q)
        distribution[order] = q[order] * _quotient(high, low, paths) / _quotient(zeros_like(below) + 1, below, paths)
        if paths > 1:
            below = low[place[best]] / high[place[best]]
        way.append(best)
        tokens.append(int(draft.tokens[best]))
        distributions.append(distribution)
    return way, tokens, distributions


def _order(ratio: Vector) -> Vector:
    """(V,) tokens in the order of `ratio`, equal ones in the order of tokens."""
    order = ratio.argsort()
    rising = ratio[order]
    if (apart := rising[1:] != rising[:-1]).sum() < len(order) - 1:
        # a stable sort written here, because NumPy and torch have different arguments for it
        key = copy_of(order)
        key[1:] += len(key) * apart.cumsum(0)
        order = order[key.argsort()]
    return order


def _quotient(high: Any, low: Any, exponent: int) -> Any:
    """(high^K - low^K) / (high - low) = sum_(j < K) high^j low^(K-1-j)."""
    total = tail = zeros_like(high) + 1
    for _ in range(exponent - 1):
        tail = tail * low
        total = total * high + tail
    return total
