"""The best tree of two sources for a budget, by best-first search without a heap.

The value of a node is the probability that it is accepted. When a node is taken into the tree, new candidates become
available: for a spine node its spine token and its branch 0, for a branch its next sibling and its own branch 0. Both
candidates are available independently of each other. A candidate is worth at most as much as the node that made it
available, because all factors are at most 1. So the n most valuable nodes of the infinite tree can be taken one after
the other, and no tree of n nodes is worth more. This holds for all p_spine and p_branch. If p_spine < p_branch, the
rates of the children of a spine node are not non-increasing in the order in which they are tried. That does no harm,
because a spine token need not be drafted before its branches, or at all.

There are only four kinds of candidates: spine token, branch 0 of a spine node, next sibling, branch 0 of a branch. The
value of a candidate is the value of the node that made it available times a constant of the kind. Nodes are taken in
order of falling value, so the candidates of one kind become available in order of falling value too, in floating point
as well, because rounding is monotone. So four queues replace the heap. The entries of a queue are the taken nodes in
their order, so a queue is a single index. A node takes O(1) time.

Source: best-first search is from Sequoia (arXiv 2402.12374), the rates are from Goose, and the queues are ours.
"""

from __future__ import annotations

import numpy as np

from spectheory.core.checks import check_counts, check_probabilities
from spectheory.core.machine import compiled, require_memory
from spectheory.core.tree import Tree
from spectheory.goose.two_source import Siblings, SpineTree, sibling_rule

COMPILE_ABOVE = 128
"""Budget above which the search is compiled. Below it takes at most 0.5 ms, and importing Numba hundreds of ms."""

BYTES_PER_NODE = 40
"""Bytes of memory per node: parent, value, depth below the spine, rank, and the copies in Tree."""

Taken = tuple[np.ndarray, np.ndarray, float]
"""The nodes that are taken: parent, depth below the spine, and the sum of all values; see `take`."""


def optimal_tree(
    p_spine: float, p_branch: float, budget: int, *, siblings: Siblings = "sequential", branch_depth: int | None = None
) -> SpineTree:
    """The tree of two sources with the highest block efficiency among all trees of at most `budget` drafted nodes.

    The tree has fewer nodes than the budget if every further node would be accepted with probability 0. Among
    candidates of equal value, the spine token is taken first, then the first branch of a spine node, then the next
    sibling, then the first branch of a branch; within a kind the older candidate. The spine token of a node has rank 0,
    before the branches.

    Args:
        p_spine: the rate of a spine token; it may be above or below `p_branch`. 0 gives the best tree of branches.
        p_branch: the rate of a branch, see `SpineTree`.
        budget: maximum number of drafted nodes, at least 0.
        siblings: "sequential", where the rate of a branch is conditional on the rejection of earlier siblings; or
            "exclusive", where every branch has rate `p_branch`, and a node has at most 1 / `p_branch` branches. These
            are models (2) and (3) of `spectheory.goose`.
        branch_depth: maximum number of branches on a path; None sets no limit, 0 gives the spine alone.

    Raises:
        InputError: an argument is out of range, or the search needs more memory than is available.

    Source: Goose, Proposition 3, claims that a spine with the branches of Eq. 2 is better than every tree of one
    source. The comparison there is with one of the two sources only. No tree of two sources, the tree of Eq. 2
    included, is better than the result of this function.

    >>> best = optimal_tree(0.5, 0.4, 6)
    >>> best.tree, best.is_spine.nonzero()[0].tolist(), round(best.block_efficiency, 4)
    (Tree([-1, 0, 1, 0, 2, 0, 1]), [0, 1, 2, 4], 2.295)
    """
    check_probabilities(p_spine=p_spine, p_branch=p_branch)
    check_counts(budget=budget, branch_depth=0 if branch_depth is None else branch_depth)
    require_memory(lambda n: BYTES_PER_NODE * (n + 1), budget)
    again, most = sibling_rule(float(p_branch), siblings)
    limit = int(budget if branch_depth is None else min(branch_depth, budget))
    body = take if budget <= COMPILE_ABOVE else compiled(take)
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
    """Take nodes in order of value, until `budget` nodes are taken or every candidate has value 0.

    `again` and `most` are the `sibling_rule`; `limit` is the greatest depth below the spine, at most `budget`.
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
    return parent[:size], below[:size], total  # total is a float once compiled
