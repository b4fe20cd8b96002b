"""The best tree of two sources for a budget: best-first search without a heap.

A spine node offers its spine token and its branch 0, each whether or not the other is taken; a branch offers its next
sibling and its own branch 0. Every offer is worth at most the node that makes it, since all factors are at most 1. So
the n nodes of highest value in the infinite tree can be taken with all that had to be taken before them, and no tree of
n nodes is worth more. That holds for every p_spine and p_branch, also for p_spine < p_branch, where the rates of a
spine node's children in the order in which they are tried are not non-increasing: what is tried first need not be
drafted first, or at all.

There are only four kinds of offers (spine token, branch 0 of a spine node, next sibling, branch 0 of a branch), each
worth its own constant times the node that makes it. Nodes are taken in order of falling value, so the offers of one
kind come in order of falling value too, in floating point as well, because rounding is monotone: four queues replace
the heap, and since queue entries are the taken nodes in their order, a queue is one index. A node costs O(1).

Source: the order of values is Sequoia's (arXiv 2402.12374) frame with Goose's rates; the queues are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from heapq import heappop, heappush

import numpy as np

from spectheory.core.checks import check_count, check_probability
from spectheory.core.memory import require_memory
from spectheory.core.tree import Tree
from spectheory.goose.two_source import Siblings, SpineTree, sibling_rule

COMPILE_ABOVE = 128
"""Nodes; up to here, which covers the paper's 60, the plain body takes at most 0.5 ms and importing Numba hundreds."""

SMALL = 1_000_000
"""Nodes that any machine holds: reading how much memory is free takes longer than the search."""

BYTES_PER_NODE = 40
"""Parent, value, depth below the spine, rank, and the copies in Tree."""

Taken = tuple[np.ndarray, np.ndarray, float]


def optimal_tree(
    p_spine: float,
    p_branch: float,
    budget: int,
    *,
    siblings: Siblings = "sequential",
    branch_depth: int | None = None,
) -> SpineTree:
    """The tree of two sources of at most `budget` drafted nodes with the highest block efficiency.

    It has fewer nodes where no further one would ever be accepted. Of equal values the spine token is taken first,
    then a spine node's branch, then a sibling, then a branch's branch; within a kind the older offer. The spine token
    of a node stands before its branches.

    Args:
        p_spine: rate of a spine token, above or below `p_branch`.
        p_branch: rate of a branch, see `SpineTree`.
        budget: most drafted nodes, at least 0.
        siblings: `sequential`, rates conditional on earlier siblings having failed; or `exclusive`, each `p_branch`,
            as many as sum to 1.
        branch_depth: longest path of branches from the spine; None for any, 0 for the spine alone.

    Raises:
        InputError: an argument is out of range, or the search needs more memory than there is.

    Source: Goose, Proposition 3, claims that a spine with the branches of Eq. 2 beats every tree of one source. It
    compares with one of the two sources only; neither that tree nor any other shape is better than the one found
    here. Acceptance is (2) or (3) of `spectheory.goose`, as `siblings` says. Where p_spine = 0 it is the best tree of
    the branches alone.

    >>> best = optimal_tree(0.5, 0.4, 6)
    >>> best.tree, best.is_spine.nonzero()[0].tolist(), round(best.block_efficiency, 4)
    (Tree([-1, 0, 1, 0, 2, 0, 1]), [0, 1, 2, 4], 2.295)
    """
    check_probability("p_spine", p_spine)
    check_probability("p_branch", p_branch)
    check_count("budget", budget)
    if branch_depth is not None:
        check_count("branch_depth", branch_depth)
    if budget > SMALL:
        require_memory(lambda n: BYTES_PER_NODE * (n + 1), budget)
    again, most = sibling_rule(float(p_branch), siblings)
    limit = int(budget if branch_depth is None else min(branch_depth, budget))
    body = take if budget <= COMPILE_ABOVE else compiled()
    parent, below, total = body(float(p_spine), float(p_branch), again, most, int(budget), limit)
    is_spine = below == 0
    if p_spine < (1 - p_spine) * p_branch:  # a branch may have been taken before the spine token beside it
        order = np.argsort(~is_spine, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        parent, is_spine = place[parent[order]], is_spine[order]
        parent[0] = -1
    is_spine.setflags(write=False)
    return SpineTree(Tree(parent), is_spine, float(total))


def take(p_spine: float, p_branch: float, again: float, most: int, budget: int, limit: int) -> Taken:
    """Take nodes in order of value until `budget` are taken or none of value above 0 is left.

    Args:
        p_spine: rate of a spine token.
        p_branch: rate of a branch below an off-spine node.
        again: ratio of a branch's rate to that of the sibling before.
        most: most branches at a node.
        budget: most drafted nodes.
        limit: greatest depth below the spine.

    Returns:
        parent (n + 1,) int32, depth below the spine (n + 1,) int32, and the sum of all values, the root's 1 included.
    """
    parent, value = np.full(budget + 1, -1, np.int32), np.ones(budget + 1)
    below, rank = np.zeros(budget + 1, np.int32), np.zeros(budget + 1, np.int32)
    factor = (p_spine, (1.0 - p_spine) * p_branch, again, p_branch)
    head = np.array([0, 0 if limit > 0 else budget + 1, 1, 1])
    total, size = 1.0, 1
    while size <= budget:
        best, kind = 0.0, -1
        for k in range(4):
            node = head[k]
            while node < size and not (
                (k < 2 and below[node] == 0)
                or (k == 2 and below[node] > 0 and rank[node] + 1 < most)
                or (k == 3 and 0 < below[node] < limit)
            ):
                node += 1
            head[k] = node
            if node < size and value[node] * factor[k] > best:
                best, kind = value[node] * factor[k], k
        if kind < 0:
            break
        node = head[kind]
        head[kind] += 1
        parent[size] = parent[node] if kind == 2 else node
        value[size] = best
        below[size] = below[node] + kind % 2  # kinds 1 and 3 go one deeper
        rank[size] = rank[node] + 1 if kind == 2 else 0
        total += best
        size += 1
    return parent[:size], below[:size], total  # pyright: ignore[reportReturnType] - a float once compiled


@cache
def compiled() -> Callable[..., Taken]:
    """`take`, compiled once and kept on disk; Numba is imported here and not before."""
    from numba import njit

    return njit(cache=True)(take)


def take_by_heap(p_spine: float, p_branch: float, again: float, most: int, budget: int, limit: int) -> Taken:
    """`take` as textbooks have it, with one heap of all offers: the check and the baseline of the benchmark."""
    parent, below, values = [-1], [0], [1.0]
    offers = [(-p_spine, 0, 0, 0)]  # -value, node that it hangs from, depth below the spine, rank among branches
    if limit > 0:
        heappush(offers, (-(1 - p_spine) * p_branch, 0, 1, 0))
    while offers and len(parent) <= budget and offers[0][0] < 0:
        negated, above, deep, rank = heappop(offers)
        node = len(parent)
        parent.append(above)
        below.append(deep)
        values.append(-negated)
        if deep == 0:
            heappush(offers, (negated * p_spine, node, 0, 0))
        elif rank + 1 < most:
            heappush(offers, (negated * again, above, deep, rank + 1))
        if deep < limit:
            rate = p_branch if deep else (1 - p_spine) * p_branch
            heappush(offers, (negated * rate, node, deep + 1, 0))
    return np.array(parent, np.int32), np.array(below, np.int32), float(sum(values))
