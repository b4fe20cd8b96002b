"""`RateWorld`, acceptance rates by depth and rank, and `ReachWorld`, the reach of each node of one tree."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from simulate.worlds.emitted import EmittedTokens
from simulate.worlds.simulated_world import SimulatedWorld, require_own_verifier
from simulate.worlds.walks import Walks, by_edges, descend, require_tree
from spectheory import Acceptance, DrawRule, InputError, Tree, Verifier, block_efficiency, reach
from spectheory.core.tree import along_paths


class _EdgeWorld(SimulatedWorld):
    """A world in which the accepted child of a node depends on the node only, and all cycles are alike."""

    verifier: Verifier | None

    @abstractmethod
    def edges(self, tree: Tree) -> Shaped[np.ndarray, " nodes"]:
        """Probability that each node is accepted once its parent is; 1 for the root."""

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

    def block_efficiency(self, shape: Tree, verifier: Verifier | None = None, rule: DrawRule | None = None) -> float:
        """See SimulatedWorld.block_efficiency."""
        return block_efficiency(self._checked(shape, verifier, rule), self.acceptance)

    def emitted_tokens(
        self, shape: Tree, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> EmittedTokens:
        """See SimulatedWorld.emitted_tokens."""
        tree = self._checked(shape, verifier, rule)
        return EmittedTokens.of_reach(tree, reach(tree, self.acceptance))


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

    def block_efficiency(self, shape: Tree, verifier: Verifier | None = None, rule: DrawRule | None = None) -> float:
        """See SimulatedWorld.block_efficiency."""
        return float(self.emitted_tokens(shape, verifier, rule).block_efficiency)

    def emitted_tokens(
        self, shape: Tree, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> EmittedTokens:
        """See SimulatedWorld.emitted_tokens."""
        tree = self._checked(shape, verifier, rule)
        return EmittedTokens.of_reach(tree, along_paths(tree.parent, self.edges(tree), np.multiply))
