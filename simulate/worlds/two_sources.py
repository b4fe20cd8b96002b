"""`TwoSourceWorld`, the two sources of Goose: a spine of likely tokens, and branches of unlikely tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulate.worlds.emitted import EmittedTokens
from simulate.worlds.simulated_world import SimulatedWorld, require_own_verifier
from simulate.worlds.walks import Choose, Walks, children_by_rank, descend
from spectheory import DrawRule, InputError, Tree, Verifier
from spectheory.core.checks import check_probabilities
from spectheory.goose import SpineTree
from spectheory.goose.two_source import Siblings, sibling_rule, two_source_reach

UNDECIDED = -2
"""Stands for the accepted child of a node while its children are tried."""


@dataclass(frozen=True, eq=False)
class TwoSourceWorld(SimulatedWorld):
    """Trees of two sources. The children of an accepted node are tried one after the other, the spine token first.

    At a spine node the next token is the spine token with probability `p_spine`, drafted or not. If it is not, the
    branches are tried. Sequential siblings: each is right with probability `p_branch`, given that the earlier ones are
    wrong. Exclusive siblings: each is right with probability `p_branch`, and at most one is.

    The shape is a `spectheory.goose.SpineTree`, which says what nodes are on the spine.

    Attributes:
        p_spine: the rate of a spine token.
        p_branch: the rate of a branch.
        siblings: "sequential" or "exclusive".
        verifier: the verifier to which the rates belong; None if it is not known.

    Source: Goose, the models (2) and (3) of `spectheory.goose`.
    """

    p_spine: float
    p_branch: float
    siblings: Siblings = "sequential"
    verifier: Verifier | None = None

    def __post_init__(self) -> None:
        check_probabilities(p_spine=self.p_spine, p_branch=self.p_branch)
        sibling_rule(float(self.p_branch), self.siblings)

    def _walks(
        self, shape: SpineTree, verifier: Any, rule: Any, requests: int, cycles: int, rng: np.random.Generator
    ) -> Walks:
        self._reach(shape, verifier, rule)
        accepted = descend(shape.tree, self._tried(shape, rng), requests * cycles)
        return Walks(accepted, np.repeat(np.arange(requests), cycles), shape.tree.max_depth)

    def block_efficiency(
        self, shape: SpineTree, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> float:
        """See SimulatedWorld.block_efficiency."""
        return float(self._reach(shape, verifier, rule).sum())

    def emitted_tokens(
        self, shape: SpineTree, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> EmittedTokens:
        """See SimulatedWorld.emitted_tokens."""
        return EmittedTokens.of_reach(shape.tree, self._reach(shape, verifier, rule))

    def _reach(self, shape: SpineTree, verifier: Verifier | None, rule: DrawRule | None) -> np.ndarray:
        require_own_verifier(self.verifier, verifier, rule)
        if not isinstance(shape, SpineTree):
            repair = ": mark the spine of the tree with goose.SpineTree.valued" if isinstance(shape, Tree) else ""
            raise InputError(f"shape must be a goose.SpineTree in a TwoSourceWorld, got {shape!r:.60}{repair}")
        return two_source_reach(shape.tree, shape.is_spine, self.p_spine, self.p_branch, self.siblings)

    def _tried(self, shape: SpineTree, rng: np.random.Generator) -> Choose:
        """Try the children of each node in turn."""
        child = children_by_rank(shape.tree)
        on_spine = np.append(shape.is_spine, False)  # the entry of child -1

        def choose(at: np.ndarray) -> np.ndarray:
            below, found = child[at], np.full(len(at), UNDECIDED)
            heads = np.flatnonzero(shape.is_spine[at])
            followed = heads[rng.random(len(heads)) < self.p_spine]
            found[followed] = np.where(on_spine[below[followed]], below[followed], -1).max(1)
            level = rng.random(len(at))
            for column in below.T:
                tried = np.flatnonzero((found == UNDECIDED) & (column >= 0) & ~on_spine[column])
                right = level[tried] < self.p_branch
                found[tried[right]] = column[tried[right]]
                wrong = tried[~right]  # what decides about their next branch: what is left, or a new number
                level[wrong] = level[wrong] - self.p_branch if self.siblings == "exclusive" else rng.random(len(wrong))
            return np.maximum(found, -1)

        return choose
