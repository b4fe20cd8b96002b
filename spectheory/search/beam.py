"""Beams: trees grown level by level, in which no level has more than so many parents.

Nodes are taken in the order of their score, the product of the scores on the path. An engine scores by its draft's
probabilities, which fall with rank by the meaning of rank; where planned rates do not, the nearest table that falls
stands for them (`Acceptance.smoothed`), and a kept node is worth the product of the planned rates all the same. So no
node is taken before its parent, nor before the sibling of the rank before, and what is kept is always a tree whose
block efficiency is the sum of its nodes.

A node outside the best `max_budget` is dropped at once: what hangs below it scores no higher, and comes later.

Where rates fall with rank, the first n nodes are worth no less than any tree of n nodes within the same limits: what
can hang below a node is a multiple of its worth, so that a level's parents may as well be its best nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spectheory.core.acceptance import Acceptance


class Grown(NamedTuple):
    """The root and the best drafted nodes in the order of score, each (m + 1,). Every prefix is a tree."""

    score: np.ndarray
    value: np.ndarray
    depth: np.ndarray
    rank: np.ndarray
    parent: np.ndarray

    def yields(self) -> np.ndarray:
        """(m + 1,) block efficiency of each prefix."""
        return self.value.cumsum()

    def parents(self) -> np.ndarray:
        """(m + 1, levels) nodes with children at each depth, of each prefix."""
        nodes, first = np.unique(self.parent[1:], return_index=True)
        new = np.zeros((len(self.depth), self.depth.max(initial=0) + 1), np.int64)
        new[first + 1, self.depth[nodes]] = 1
        return new.cumsum(0)


def draft_scores(acceptance: Acceptance) -> np.ndarray:
    """(D, R) the rates by which a draft would order its tokens: non-increasing in rank and at most 1."""
    table = acceptance.table if acceptance.is_non_increasing else acceptance.smoothed().table
    return np.minimum.accumulate(np.minimum(table, 1), axis=1)


def beam(rates: np.ndarray, scores: np.ndarray, width: int, max_levels: int, max_budget: int) -> Iterator[Grown]:
    """The best nodes of 1, 2, ... levels, to the last one that changes them or to `max_levels`.

    Args:
        rates: (D, R) by depth and rank; a parent gets R children.
        scores: (D, R) `draft_scores` of them.
        width: most parents of a level.
        max_levels: most levels.
        max_budget: most drafted nodes kept.
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
