"""Beam search: trees grown level by level, with a limit on the number of parents in a level.

Nodes are ordered by score. The score of a node is the product of the draft scores on its path. An engine scores a token
by the draft's probability, which never rises with rank, because the rank is the order of the probabilities. Planned
rates may rise with rank. Then the scores are the nearest rates that do not rise (`Acceptance.smoothed`), while the
value of a node is still the product of the planned rates. So a node comes after its parent and after its earlier
siblings. The nodes that are kept always form a tree, and the block efficiency of this tree is the sum of their values.

A node that is not among the best `max_budget` is dropped at once: its descendants score no higher than it does.

If the rates are non-increasing in rank, the first n nodes are worth at least as much as any tree of n nodes within the
same limits. The reason: the worth of everything below a node is proportional to the value of the node, so the best
parents of a level are its best nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int, Int64

from spectheory.core.acceptance import Acceptance


class Grown(NamedTuple):
    """The root and the m best drafted nodes, in order of score: every prefix is a tree.

    Attributes:
        score: product of the draft scores on the path; 1 for the root.
        value: product of the planned rates on the path; 1 for the root.
        depth: edges from the root.
        rank: rank among the siblings; 0 for the root.
        parent: index of the parent; -1 for the root.
    """

    score: Float[np.ndarray, " prefixes"]
    value: Float[np.ndarray, " prefixes"]
    depth: Int[np.ndarray, " prefixes"]
    rank: Int[np.ndarray, " prefixes"]
    parent: Int[np.ndarray, " prefixes"]

    def yields(self) -> Float64[np.ndarray, " prefixes"]:
        """The block efficiency of each prefix."""
        return self.value.cumsum()

    def parents(self) -> Int64[np.ndarray, "prefixes levels"]:
        """For each prefix, the number of nodes with children at each depth."""
        nodes, first = np.unique(self.parent[1:], return_index=True)
        new = np.zeros((len(self.depth), self.depth.max(initial=0) + 1), np.int64)
        new[first + 1, self.depth[nodes]] = 1
        return new.cumsum(0)


def draft_scores(acceptance: Acceptance) -> Float64[np.ndarray, "depths ranks"]:
    """The rates by which a draft would order its tokens, non-increasing in rank and at most 1."""
    table = acceptance.table if acceptance.is_non_increasing else acceptance.smoothed().table
    return np.minimum.accumulate(np.minimum(table, 1), axis=1)


def beam(
    rates: Float[np.ndarray, "depths ranks"],
    scores: Float[np.ndarray, "depths ranks"],
    width: int,
    max_levels: int,
    max_budget: int,
) -> Iterator[Grown]:
    """Yield the best nodes of the first level, of the first two levels, and so on.

    The iteration ends after `max_levels` levels, or earlier, after the last level that changes the best nodes.

    Args:
        rates: (D, R) by depth and rank; every parent gets R children.
        scores: (D, R) the `draft_scores` of these rates.
        width: maximum number of parents in a level.
        max_levels: maximum number of levels.
        max_budget: maximum number of drafted nodes that are kept.
    """
    zero = np.zeros(1, np.int64)
    grown = Grown(np.ones(1), np.ones(1), zero, zero, zero - 1)
    for level in range(max_levels):
        above, row = np.flatnonzero(grown.depth == level)[:width], min(level, len(rates) - 1)
        score = np.append(grown.score, np.outer(grown.score[above], scores[row]))
        value = np.append(grown.value, np.outer(grown.value[above], rates[row]))
        parent = np.append(grown.parent, np.repeat(above, rates.shape[1]))
        rank = np.append(grown.rank, np.tile(np.arange(rates.shape[1]), len(above)))
        depth = np.append(grown.depth, np.full(len(above) * rates.shape[1], level + 1))
        order = np.argsort(-score, kind="stable")[: min(max_budget + 1, np.count_nonzero(score))]
        if order.max() < len(grown.score):
            return
        place = np.zeros(len(score), np.int64)
        place[order] = np.arange(len(order))
        parent = place[parent[order]]
        parent[0] = -1
        grown = Grown(score[order], value[order], depth[order], rank[order], parent)
        yield grown
