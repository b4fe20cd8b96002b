"""Trees from the paths of ranks that greedy texts take, counted where cycles start and shrunk towards the rates."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import Acceptance
from spectheory.core.tree import Tree
from spectheory.replay import GreedyText

WEIGHT = 500
"""Visits of a node at which its own counts weigh as much as the rates of its depth."""


def counted_paths(
    texts: Sequence[GreedyText],
    starts: Sequence[np.ndarray],
    acceptance: Acceptance,
    *,
    budget: int,
    depth: int,
    fanout: int,
) -> list[tuple[int, ...]]:
    """The paths of ranks to the nodes of the best tree, best first; the first b paths are the best tree of b nodes.

    A node that n cycles visit, of which h continue with rank r, is continued with rank r with the chance (h + w a) / (n
    + w): w is `WEIGHT`, a is the rate of its depth and this rank. Rates alone cannot tell the paths of a depth apart;
    counts alone are noise where few cycles pass. Chances that rise with rank are cut, because siblings are drafted in
    the order of their ranks.

    Args:
        texts: the texts.
        starts: for each text (n,) the probability that a cycle starts at each position.
        acceptance: rates by depth and rank.
        budget: the largest number of drafted nodes.
        depth: the depth of the deepest node.
        fanout: the largest number of children of a node.
    """
    rows = [_joined(texts, level) for level in range(max(len(text.ranks) for text in texts))]
    weights = np.concatenate([np.append(each, 0.0) for each in starts])
    visits = np.flatnonzero(weights)
    ranks = min(acceptance.ranks, fanout)

    def chances(path: tuple[int, ...], positions: np.ndarray) -> Float[np.ndarray, " ranks"]:
        """Chance of each rank after a path that cycles follow up to `positions`, given that they do."""
        taken, weight = rows[min(len(path), len(rows) - 1)][positions], weights[positions - len(path)]
        counts = np.bincount(taken + 1, weight, ranks + 1)[1 : ranks + 1]
        shrunk = (counts + WEIGHT * acceptance.row(len(path))[:ranks]) / (weight.sum() + WEIGHT)
        return np.minimum.accumulate(shrunk)

    found: list[tuple[int, ...]] = []
    first = chances((), visits)
    queue: list[tuple[Any, ...]] = [(-first[0], (0,), 1.0, first, visits)]
    while queue and len(found) < budget:
        value, path, above, siblings, positions = heappop(queue)
        found.append(path)
        if path[-1] + 1 < ranks:
            sibling = (*path[:-1], path[-1] + 1)
            heappush(queue, (-above * siblings[sibling[-1]], sibling, above, siblings, positions))
        if len(path) < depth:
            passed = positions[rows[min(len(path) - 1, len(rows) - 1)][positions] == path[-1]] + 1
            below = chances(path, passed)
            heappush(queue, (value * below[0], (*path, 0), -value, below, passed))
    return found


def counted_trees(paths: Sequence[tuple[int, ...]], budgets: Sequence[int]) -> list[Tree]:
    """The trees of the first paths, one for each of the budgets that there are paths for."""
    return [Tree.from_paths(paths[:budget]) for budget in budgets if budget <= len(paths)]


def _joined(texts: Sequence[GreedyText], level: int) -> np.ndarray:
    """The ranks of all texts at a depth, with a miss after the end of each text."""
    return np.concatenate([np.append(text.ranks[min(level, len(text.ranks) - 1)], -1) for text in texts])
