"""Best-first search: the n nodes with the highest product of rates on the path, for every n up to the budget at once.

The value of a node is the product of the rates on its path. The search is exact if every row of rates is non-increasing
in rank and at most 1. Then a node is worth at most as much as its parent and as its previous sibling, in floating point
too, because rounding is monotone. So the n most valuable nodes of the infinite tree contain all their parents and
earlier siblings: they are a tree. No tree of n nodes is worth more than the sum of the n highest values.

Each node that is taken makes two candidates available: its first child and its next sibling. The next best node is
always among the candidates. Nodes of value 0 are never taken. Candidates of equal value are taken by smaller depth,
then by lower rank, then by older parent.

Candidates of one depth and rank become available, and are taken, in the order of their parents' age. So the heap needs
only the first candidate of each depth and rank. Its size is the number of depths times ranks in use, not the budget,
and it fits into the cache of a processor.

Source: Sequoia (arXiv 2402.12374), OPT-Tree (2406.17276), SpecExec (2406.02532), EAGLE-2 (2406.16858), as one search.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace

import numpy as np

from spectheory.core.machine import compiled, require_memory
from spectheory.core.tree import Tree

COMPILE_ABOVE = 5_000
"""Budget above which the search is compiled. Below it takes milliseconds, and importing Numba hundreds of them."""

BYTES_PER_NODE = 128
"""Bytes of memory per node: six numbers, at most one heap entry of 32 bytes in a growing list, the copy in Tree."""


def grow(table: np.ndarray, budget: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Parent (n + 1,) and value (n + 1,) of the nodes in order of value, the root first: each prefix is a best tree.

    Nodes are taken until `budget` are, or every candidate has value 0. No node is deeper than `limit`. The rows of
    `table` (D, R) must be non-increasing and at most 1; the last one holds for deeper nodes.

    In the body, `older[i]` and `younger[i]` are the nodes taken just before and just after node i at the same depth,
    `youngest[d]` is the last node taken at depth d, and `children[i]` counts the children of node i that are taken.
    A node's child of rank r becomes a candidate once the child of rank r of its older neighbour is taken. `nobody`
    stands for a missing neighbour; its entry in `children`, `ranks + 1`, never delays a node.
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


def grow_fast(table: np.ndarray, budget: int, limit: int, passes: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The same result as `grow`, from a compiled version if that pays off over `passes` calls of this size."""
    body = grow if budget * passes <= COMPILE_ABOVE else compiled(grow)
    return body(table, budget, limit)


def trees(table: np.ndarray, budgets: Sequence[int], limit: int) -> list[Tree]:
    """The best tree for each of `budgets`, with no node deeper than `limit`. All are prefixes of the largest one.

    Args:
        table: see `grow`.
        budgets: whole numbers >= 1.
        limit: the greatest depth of a node, at least 1.

    Raises:
        InputError: the search needs more memory than is available.
    """
    largest = max(budgets)
    require_memory(lambda n: BYTES_PER_NODE * (n + 1), largest)
    parent, _ = grow_fast(table, largest, limit)
    return [Tree(parent[: budget + 1]) for budget in budgets]


def fill_yields(table: np.ndarray, result: np.ndarray) -> None:
    """Write the best block efficiency for each depth limit (row) and budget (column) into `result`.

    If one more level changes nothing, no further level does, because a node is worth at most as much as its parent.

    Args:
        table: see `grow`.
        result: (M + 1, N + 1) float64, all ones; changed in place.
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
