"""`Walks`, the cycles that a simulation has drawn, and the walk down a tree that worlds of rates share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from spectheory import InputError, Provenance, Tally, Tree
from spectheory.core.checks import check_whole

Choose = Callable[[Int[np.ndarray, " walks"]], Int[np.ndarray, " walks"]]
"""Draws, for an array of accepted nodes, the child of each that is accepted next, or -1."""


@dataclass(frozen=True, eq=False)
class Walks:
    """N simulated cycles of several requests.

    Attributes:
        accepted: (N,) number of drafted tokens that each cycle keeps.
        request: (N,) number of the request of each cycle, 0, 1, ...
        deepest: maximum number of drafted tokens that a cycle can keep.
    """

    accepted: np.ndarray
    request: np.ndarray
    deepest: int

    def tally(self, provenance: Provenance) -> Tally:
        """The counts by request, with intervals that assume independent requests, not independent cycles."""
        cycles = np.bincount(self.request)
        return Tally(
            emitted=np.bincount(self.request, self.accepted).astype(np.int64) + cycles,
            cycles=cycles,
            accepted_histogram=np.bincount(self.accepted, minlength=self.deepest + 1),
            provenance=provenance,
        )


def check_sizes(requests: int, cycles: int) -> None:
    """Refuse a number of requests or cycles that is below 1."""
    check_whole("requests", requests, 1)
    check_whole("cycles", cycles, 1, ": give the number of cycles of each request")


def descend(tree: Tree, choose: Choose, cycles: int) -> Int[np.ndarray, " cycles"]:
    """Number of accepted tokens of walks from the root down, all at once, level by level."""
    node, accepted = np.zeros(cycles, np.int64), np.zeros(cycles, np.int64)
    walking = np.arange(cycles)
    for _ in range(tree.max_depth):
        node[walking] = choose(node[walking])
        walking = walking[node[walking] >= 0]
        accepted[walking] += 1
    return accepted


def by_edges(tree: Tree, edges: Float[np.ndarray, " nodes"], rng: np.random.Generator) -> Choose:
    """Walks in which at most one child is accepted: node u, if its parent is accepted, with probability `edges[u]`."""
    child, share = children_by_rank(tree), np.zeros((tree.budget + 1, int(tree.rank.max()) + 1))
    drafted = np.arange(1, tree.budget + 1)
    share[tree.parent[drafted], tree.rank[drafted]] = edges[drafted]
    upto = share.cumsum(1)

    def choose(at: np.ndarray) -> np.ndarray:
        rank = (upto[at] <= rng.random(len(at))[:, None]).sum(1)
        return child[at, rank]

    return choose


def children_by_rank(tree: Tree) -> Int[np.ndarray, "nodes children"]:
    """The child of each node by rank, -1 where there is none; the last column is always -1."""
    child = np.full((tree.budget + 1, int(tree.rank.max()) + 2), -1)
    drafted = np.arange(1, tree.budget + 1)
    child[tree.parent[drafted], tree.rank[drafted]] = drafted
    return child


def require_tree(shape: object, world: str) -> Tree:
    """`shape`, if it is a static tree. Raises InputError if not."""
    if not isinstance(shape, Tree):
        raise InputError(
            f"shape must be a Tree in a {world}, which has no tokens that a policy could draft, got {shape!r:.60}: use "
            "MarkovWorld"
        )
    return shape
