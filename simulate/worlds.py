"""Worlds: how many drafted tokens a cycle keeps, drawn cycle by cycle, and computed exactly.

- `RateWorld`: a table of acceptance rates is all that is known, and all contexts are alike.
- `ReachWorld`: one tree, with the share of the cycles that accept each node, such as a plan from a trace predicts.

Rates belong to one verifier. Policies and verifiers are compared in worlds of tokens, by
`spectheory.expected_block_efficiency`.

>>> import numpy as np
>>> import spectheory as st
>>> world, chain = RateWorld(st.Acceptance.by_rank([0.6])), st.Tree.chain(3)
>>> f"{world.block_efficiency(chain):.3f}"
'2.176'
>>> walks = world.walks(chain, requests=100, cycles=20, rng=np.random.default_rng(0))
>>> f"{walks.tally(st.Provenance('example')).tau:.3f}"
'2.203'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from spectheory import Acceptance, InputError, Provenance, Tally, Tree
from spectheory.core.checks import check_whole
from spectheory.core.tree import along_paths


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


class SimulatedWorld(ABC):
    """How many drafted tokens a cycle keeps: the accepted child of a node depends on the node, and cycles are alike.

    `walks` simulates each cycle, the other methods compute exact values, so each is a test of the other.
    """

    @abstractmethod
    def edges(self, tree: Tree) -> Shaped[np.ndarray, " nodes"]:
        """Probability that each node is accepted once its parent is; 1 for the root."""

    def walks(self, tree: Tree, *, requests: int, cycles: int, rng: np.random.Generator) -> Walks:
        """Draw `cycles` cycles of each of `requests` requests.

        Raises:
            InputError: the world does not know the tree, or a number is below 1.
        """
        check_whole("requests", requests, 1)
        check_whole("cycles", cycles, 1, ": give the number of cycles of each request")
        self._require_tree(tree)
        accepted = _descend(tree, self.edges(tree), requests * cycles, rng)
        return Walks(accepted, np.repeat(np.arange(requests), cycles), tree.max_depth)

    def emitted_tokens(self, tree: Tree) -> Shaped[np.ndarray, " lengths"]:
        """Probabilities that a cycle emits 1, 2, ... tokens. Raises InputError as `walks` does."""
        self._require_tree(tree)
        reach = along_paths(tree.parent, self.edges(tree), np.multiply)
        stop = reach.copy()
        np.subtract.at(stop, tree.parent[1:], reach[1:])
        by_depth = np.array([stop[tree.depth == depth].sum() for depth in range(tree.max_depth + 1)])
        return by_depth if stop.dtype == object else np.maximum(by_depth, 0) / np.maximum(by_depth, 0).sum()

    def block_efficiency(self, tree: Tree) -> float:
        """E[tau], the expected tokens per target call. Raises InputError as `walks` does."""
        probabilities = self.emitted_tokens(tree)
        return float(probabilities @ np.arange(1, len(probabilities) + 1))

    def _require_tree(self, tree: Tree) -> None:
        if not isinstance(tree, Tree):
            raise InputError(f"tree must be a Tree, got {tree!r:.60}: worlds of rates have no tokens to draft")


@dataclass(frozen=True, eq=False)
class RateWorld(SimulatedWorld):
    """Acceptance rates by depth and rank: nothing else changes the probability that a child is accepted.

    `Acceptance.by_rank` gives Sequoia's ranks that do not depend on the depth.

    Attributes:
        acceptance: the rates.
    """

    acceptance: Acceptance

    def edges(self, tree: Tree) -> Shaped[np.ndarray, " nodes"]:
        """Probability that each node is accepted once its parent is; 1 for the root."""
        rates = self.acceptance
        return np.array(
            [
                rates.row(depth - 1)[rank] if depth and rank < rates.ranks else float(not depth)
                for depth, rank in zip(tree.depth.tolist(), tree.rank.tolist(), strict=True)
            ]
        )


@dataclass(frozen=True, eq=False)
class ReachWorld(SimulatedWorld):
    """The reach of each node of one tree, for example from a replay.

    Given its parent, a child is accepted with probability reach[child] / reach[parent], cut to the range of 0 to 1.

    Attributes:
        tree: the only tree that the world knows.
        reach: (budget + 1,) the share of the cycles that accept each node.
    """

    tree: Tree
    reach: np.ndarray

    def __post_init__(self) -> None:
        if np.shape(self.reach) != (nodes := self.tree.parent.shape):
            raise InputError(f"reach must have one entry for each node, shape {nodes}, got {np.shape(self.reach)}")

    def edges(self, tree: Tree) -> Shaped[np.ndarray, " nodes"]:
        """Probability that each node is accepted once its parent is; 1 for the root."""
        above = np.maximum(self.reach[tree.parent.clip(0)], np.finfo(float).tiny)
        return np.clip(self.reach / above, 0, 1)

    def _require_tree(self, tree: Tree) -> None:
        if tree != self.tree:
            raise InputError(f"tree must be {self.tree}, the tree whose reach is known, got {tree!r:.80}")


def _descend(
    tree: Tree, edges: Float[np.ndarray, " nodes"], cycles: int, rng: np.random.Generator
) -> Int[np.ndarray, " cycles"]:
    """Number of accepted tokens of walks from the root down, all at once, level by level; at most one child each."""
    ranks = int(tree.rank.max()) + 1
    child, share = np.full((tree.budget + 1, ranks + 1), -1), np.zeros((tree.budget + 1, ranks))
    drafted = np.arange(1, tree.budget + 1)
    child[tree.parent[drafted], tree.rank[drafted]] = drafted
    share[tree.parent[drafted], tree.rank[drafted]] = edges[drafted]
    upto = share.cumsum(1)
    node, accepted = np.zeros(cycles, np.int64), np.zeros(cycles, np.int64)
    walking = np.arange(cycles)
    for _ in range(tree.max_depth):
        at = node[walking]
        node[walking] = child[at, (upto[at] <= rng.random(len(at))[:, None]).sum(1)]
        walking = walking[node[walking] >= 0]
        accepted[walking] += 1
    return accepted
