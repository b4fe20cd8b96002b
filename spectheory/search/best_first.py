"""Best-first search: the n nodes of highest path product, for every n up to the budget in one pass.

Exact where every row of rates is non-increasing in rank and at most 1. Then a node is worth at most its parent and at
most the sibling before it, in floating point too, because rounding is monotone. So the n most valuable nodes of the
infinite tree can be taken with all their parents and earlier siblings; no tree of n nodes is worth more than the sum
of the n highest values. Each node taken uncovers its first child and its next sibling, and the next best is always
among the uncovered ones. Nodes of value 0 are never taken. Ties go by (value, depth, rank, age of the parent).

Nodes of one depth and rank are uncovered, and taken, in the order of their parents' age. So only the first of each
depth and rank stands in the heap, which then fits a processor's cache: its size is the number of rows times ranks in
use, not the budget.

Source: Sequoia (arXiv 2402.12374), OPT-Tree (2406.17276), SpecExec (2406.02532), EAGLE-2 (2406.16858), as one search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from heapq import heappop, heappush, heapreplace

import numpy as np

from spectheory.core.memory import require_memory
from spectheory.core.tree import Tree

COMPILE_ABOVE = 5_000
"""Nodes; up to here, where planners search, the plain body takes some milliseconds and importing Numba hundreds."""

BYTES_PER_NODE = 128
"""Six numbers, at most one heap entry of 32 bytes in a list that grows by copying, and the copy in Tree."""


def grow(table: np.ndarray, budget: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Take nodes in order of value until `budget` are taken or none of value above 0 is left.

    Args:
        table: (D, R) float64 rates, each row non-increasing and at most 1; the last row holds for deeper nodes.
        budget: most drafted nodes.
        limit: greatest depth of a node, at least 1.

    Returns:
        parent (n + 1,) int32 and value (n + 1,) float64, the root first; each prefix is the best tree of its size.

    `older` and `younger` are a node's neighbours of the same depth by age, `youngest` the last of a depth, `children`
    the number taken of a node's children. `nobody` is a neighbour that never keeps another node waiting.
    """
    last, ranks = table.shape[0] - 1, table.shape[1]
    parent = np.full(budget + 1, -1, np.int32)
    value = np.ones(budget + 1)
    nobody = budget + 1
    children = np.zeros(budget + 2, np.int64)
    children[nobody] = ranks + 1
    older = np.full(budget + 1, nobody)
    younger = np.full(budget + 2, nobody)
    youngest = np.full(min(limit, budget) + 1, nobody)
    fronts = [(-table[0, 0], 1, 0, 0)]
    size = 1
    while len(fronts) > 0 and size <= budget:
        negated, depth, rank, above = fronts[0]
        if negated == 0:
            break
        parent[size], value[size], children[above] = above, -negated, rank + 1
        rates = table[min(depth - 1, last)]
        if children[younger[above]] == rank:
            heapreplace(fronts, (-value[younger[above]] * rates[rank], depth, rank, younger[above]))
        else:
            heappop(fronts)
        if rank + 1 < ranks and children[older[above]] > rank + 1:
            heappush(fronts, (-value[above] * rates[rank + 1], depth, rank + 1, above))
        if depth < limit:
            older[size] = youngest[depth]
            younger[youngest[depth]], youngest[depth] = size, size
            if children[older[size]] > 0:
                heappush(fronts, (negated * table[min(depth, last), 0], depth + 1, 0, size))
        size += 1
    return parent[:size], value[:size]


@cache
def compiled() -> Callable[[np.ndarray, int, int], tuple[np.ndarray, np.ndarray]]:
    """`grow`, compiled once and kept on disk; Numba is imported here and not before."""
    from numba import njit

    return njit(cache=True)(grow)


def grow_fast(table: np.ndarray, budget: int, limit: int, passes: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The same result as `grow`, compiled where `passes` such calls repay it."""
    body = grow if budget * passes <= COMPILE_ABOVE else compiled()
    return body(table, budget, limit)


def trees(table: np.ndarray, budgets: Sequence[int], limit: int) -> list[Tree]:
    """The best tree for each of `budgets`, no node deeper than `limit`: prefixes of the largest.

    Args:
        table: as for `grow`.
        budgets: whole numbers >= 1.
        limit: greatest depth of a node, at least 1.

    Raises:
        InputError: it needs more memory than there is.
    """
    largest = max(budgets)
    require_memory(lambda n: BYTES_PER_NODE * (n + 1), largest)
    parent, _ = grow_fast(table, largest, limit)
    return [Tree(parent[: budget + 1]) for budget in budgets]


def fill_yields(table: np.ndarray, result: np.ndarray) -> None:
    """Fill `result`, (M + 1, N + 1) of ones, with the best block efficiency for each greatest depth and budget.

    Where one more depth changes nothing, no further one does: a node is worth at most its parent.

    Args:
        table: as for `grow`.
        result: changed in place.
    """
    max_depth, budget = len(result) - 1, result.shape[1] - 1
    for limit in range(1, max_depth + 1):
        _, value = grow_fast(table, budget, limit, passes=max_depth)
        total = value.cumsum()
        result[limit, : len(total)] = total
        result[limit, len(total) :] = total[-1]
        if limit > 1 and np.array_equal(result[limit], result[limit - 1]):
            result[limit:] = result[limit]
            break
