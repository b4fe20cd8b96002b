"""Worlds of rates: by depth and rank, and by the reach of each node of one tree."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from simulate.worlds.world import (
    SimulatedWorld,
    Walks,
    by_edges,
    descend,
    require_own_verifier,
    require_tree,
)
from spectheory import Acceptance, DrawRule, InputError, Tree, Verifier
from spectheory.core.tree import along_paths


class _EdgeWorld(SimulatedWorld):
    """A world in which the accepted child of a node depends on the node only, and all cycles are alike."""

    verifier: Verifier | None

    @abstractmethod
    def edges(self, tree: Tree) -> Shaped[np.ndarray, " nodes"]:
        """Probability that each node is accepted once its parent is; 1 for the root."""

    def emitted_tokens(
        self, shape: Tree, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> Shaped[np.ndarray, " lengths"]:
        tree = self._checked(shape, verifier, rule)
        reach = along_paths(tree.parent, self.edges(tree), np.multiply)
        stop = reach.copy()
        np.subtract.at(stop, tree.parent[1:], reach[1:])
        by_depth = np.array([stop[tree.depth == depth].sum() for depth in range(tree.max_depth + 1)])
        return by_depth if stop.dtype == object else np.maximum(by_depth, 0) / np.maximum(by_depth, 0).sum()

    def _walks(
        self, shape: Tree, verifier: Any, rule: DrawRule | None, requests: int, cycles: int, rng: np.random.Generator
    ) -> Walks:
        tree = self._checked(shape, verifier, rule)
        accepted = descend(tree, by_edges(tree, self.edges(tree), rng), requests * cycles)
        return Walks(accepted, np.repeat(np.arange(requests), cycles), tree.max_depth)

    def _checked(self, shape: Tree, verifier: Verifier | None, rule: DrawRule | None) -> Tree:
        require_own_verifier(self.verifier, verifier, rule)
        return require_tree(shape, type(self).__name__)


@dataclass(frozen=True, eq=False)
class RateWorld(_EdgeWorld):
    """Acceptance rates by depth and rank: nothing else changes the probability that a child is accepted.

    `Acceptance.by_rank` gives Sequoia's ranks that do not depend on the depth.

    Attributes:
        acceptance: the rates.
        verifier: the verifier to which the rates belong; None if it is not known.
    """

    acceptance: Acceptance
    verifier: Verifier | None = None  # pyrefly: ignore[bad-override]

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
class ReachWorld(_EdgeWorld):
    """The reach of each node of one tree, for example from a replay.

    Given its parent, a child is accepted with probability reach[child] / reach[parent].

    An estimate of the reach that is below 0 or above the reach of the parent is cut.

    Attributes:
        tree: the only tree that the world knows.
        reach: (budget + 1,) the share of the cycles that accept each node.
        verifier: the verifier for which the reach holds; None if it is not known.
    """

    tree: Tree
    reach: np.ndarray
    verifier: Verifier | None = None  # pyrefly: ignore[bad-override]

    def __post_init__(self) -> None:
        if np.shape(self.reach) != self.tree.parent.shape:
            raise InputError(
                f"reach must have one entry for each of the {self.tree.budget + 1} nodes, got shape "
                f"{np.shape(self.reach)}"
            )

    def edges(self, tree: Tree) -> Shaped[np.ndarray, " nodes"]:
        """Probability that each node is accepted once its parent is; 1 for the root."""
        above = np.maximum(self.reach[tree.parent.clip(0)], np.finfo(float).tiny)
        return np.clip(self.reach / above, 0, 1)

    def _checked(self, shape: Tree, verifier: Verifier | None, rule: DrawRule | None) -> Tree:
        if shape != self.tree:
            raise InputError(f"shape must be {self.tree}, the tree whose reach is known, got {shape!r:.80}")
        return super()._checked(shape, verifier, rule)
