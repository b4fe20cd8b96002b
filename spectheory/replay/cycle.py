"""`Cycle`, what a decoder drafts and how it verifies, and the chance that it keeps each node at every position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Shaped

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.core.world import DrawPolicy, Levels, Paths
from spectheory.otlp import NSS, RRS, Naive, Solver
from spectheory.replay.greedy import GreedyText, passed_greedily, passed_in_expectation
from spectheory.replay.kernels import (
    Edges,
    Shape,
    best_path_ratios,
    chain_ratios,
    edges,
    kept_by_ratio,
    kept_by_traversal,
    kept_top_down,
    passed_by_traversal,
    passed_top_down,
    shape_of,
)
from spectheory.replay.text import TargetText
from spectheory.verify import Block, Greedy, GreedyMultiPathBlock, TopDown, Traversal, TreeMonteCarlo, Verifier

Text = TargetText | GreedyText
"""What can be replayed."""


class OneText:
    """A text, its draws, and the edges that were computed on it.

    Args:
        text: the text.
        seed: seed of the drafts that are drawn in addition to its tokens.
    """

    def __init__(self, text: Text, seed: list[int]) -> None:
        self.text: Any = text
        self.seed = seed
        self.edges = cache(self._edges)
        self.siblings = cache(self._siblings)

    def rng(self, *node: int) -> np.random.Generator:
        """The stream of the drafts at one kind of node, named by numbers, or at all nodes."""
        return np.random.default_rng([*self.seed, 1, *node])

    def closer(self, share: float) -> OneText:
        """The text with a draft that is closer to the target, and the same random numbers."""
        text = self.text
        return OneText(TargetText(text.tokens, text.p, (1 - share) * text.q + share * text.p), self.seed)

    def _siblings(self) -> Any:
        from spectheory.replay.siblings import Siblings

        return Siblings(self.text, [*self.seed, 0, 0])

    def _edges(self, solver: Solver, rule: DrawRule, k: int, depth: int) -> Edges:
        one_draw = k == 1 and rule is not DrawRule.TOP_K
        if (one_draw or rule is DrawRule.NO_REPLACEMENT) and type(solver) in (NSS, Naive, RRS):
            table = self.siblings().edges(solver, k, depth)
            return {(place, 1): column for place, column in enumerate(table.T)}
        return edges(self.text, solver, rule, k, self.rng(k, depth), depth=depth)


@dataclass(frozen=True)
class Cycle:
    """What a decoder drafts and how it verifies, in each cycle.

    Attributes:
        shape: a static tree, or a draw policy.
        verifier: the verifier.
        rule: how children of a tree are drawn; None for a policy, and for greedy decoding.
        perfect: depth of the nodes whose first child is always the token of the text, and is kept; None if there are
            none.
        closer: how much closer to the target the draft is than the recorded one, from 0 to 1: sampled text has
            (1 - closer) q + closer p in place of q, and greedy text has each token ranked first with this probability,
            whatever its rank was.

    Raises:
        InputError: the verifier is not lossless for the rule or the shape, or cannot be replayed; or a number is out of
            range.
    """

    shape: Tree | DrawPolicy
    verifier: Verifier
    rule: DrawRule | None = None
    perfect: int | None = None
    closer: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.closer <= 1:
            raise InputError(f"closer must be between 0, the recorded draft, and 1, the target, got {self.closer}")
        if self.perfect is not None and not (isinstance(self.shape, Tree) and 0 <= self.perfect < self.shape.max_depth):
            raise InputError(
                f"perfect must be a depth at which a static tree has nodes with children, got {self.perfect} for "
                f"{self.shape}"
            )
        if not can_replay(self.verifier):
            raise InputError(
                f"verifier {self.verifier} cannot be replayed: replay knows Greedy, Block, TreeMonteCarlo, "
                "Traversal, GreedyMultiPathBlock, and TopDown of any node solver"
            )
        if isinstance(self.verifier, Greedy):
            if not isinstance(self.shape, Tree):
                raise InputError(f"greedy decoding draws nothing, got {self.shape.name}: give a Tree")
        elif self.states.rule not in self.verifier.rules:
            named = ", ".join(rule.name for rule in self.verifier.rules)
            raise InputError(
                f"rule is {self.states.rule.name}, {self.verifier} is lossless only for {named}: use one of these "
                "rules, or another verifier"
            )

    @property
    def states(self) -> Shape:
        """The shape as states."""
        return shape_of(self.shape, self.rule)

    def passed(self, one: OneText) -> Shaped[np.ndarray, "n nodes"]:
        """Chance that a cycle from each position keeps each node of a tree; of a policy, each depth."""
        if self.closer and isinstance(one.text, TargetText):
            return replace(self, closer=0.0).passed(one.closer(self.closer))
        return KERNELS[type(self.verifier)](one, self)

    def kept(self, one: OneText) -> Shaped[np.ndarray, "n lengths"]:
        """Chance that a cycle from each position keeps at least 0..L drafted tokens."""
        passed = self.passed(one)
        if not isinstance(self.shape, Tree) or self.shape.is_chain:
            return passed
        return passed @ (self.shape.depth[:, None] == np.arange(self.shape.max_depth + 1)).astype(np.float64)


def _greedily(one: OneText, cycle: Cycle) -> np.ndarray:
    text, tree = one.text, cycle.shape
    assert isinstance(tree, Tree)
    text = text if cycle.perfect is None else text.perfect_at(cycle.perfect)
    return passed_in_expectation(text, tree, cycle.closer) if cycle.closer else passed_greedily(text, tree)


def _top_down(one: OneText, cycle: Cycle) -> np.ndarray:
    """Depths that share a distribution share edges."""
    verifier, states = cycle.verifier, cycle.states
    assert isinstance(verifier, TopDown)
    sure: Edges = {(0, 1): np.ones(len(one.text))}

    def below(k: int, depth: int) -> Edges:
        if depth == cycle.perfect:
            return sure
        return one.edges(verifier.solver, states.rule, k, min(depth, len(one.text.q) - 1))

    if isinstance(cycle.shape, Tree):
        return passed_top_down(one.text, cycle.shape, states, below)
    return kept_top_down(one.text, states, below)


def _traversal(one: OneText, cycle: Cycle) -> np.ndarray:
    tree, perfect = cycle.shape, cycle.perfect
    if not isinstance(tree, Tree):
        return kept_by_traversal(one.text, cycle.states, one.rng())
    if cycle.rule is DrawRule.NO_REPLACEMENT or tree.is_chain:  # the compiled loops over siblings know these
        return one.siblings().traversal(tree, perfect)
    return passed_by_traversal(one.text, tree, cycle.states, one.rng(), perfect)


def _block(one: OneText, cycle: Cycle) -> np.ndarray:
    return _by_ratio(chain_ratios(one.text, _chain_length(cycle)), cycle)


def _best_path(one: OneText, cycle: Cycle) -> np.ndarray:
    shape = cycle.shape
    paths = shape if isinstance(shape, Paths) else Paths(1, _chain_length(cycle))
    return _by_ratio(best_path_ratios(one.text, paths.paths, paths.length, paths.trunk), cycle)


def _by_ratio(ratios: np.ndarray, cycle: Cycle) -> np.ndarray:
    """`kept_by_ratio`; a draft that is perfect at one depth has the ratio 1 there."""
    if cycle.perfect is not None:
        ratios[:, cycle.perfect] = 1
    return kept_by_ratio(ratios)


def _chain_length(cycle: Cycle) -> int:
    """Number of drafted tokens of a chain; InputError for other shapes."""
    shape, verifier = cycle.shape, cycle.verifier
    if isinstance(shape, Tree) and shape.is_chain:
        return shape.budget
    if isinstance(shape, Levels) and set(shape.counts) == {1}:
        return len(shape.counts)
    if isinstance(shape, Paths) and shape.paths == 1:
        return shape.trunk + shape.length
    raise InputError(f"{verifier} verifies {verifier.takes}, got {shape}: give a chain, or verify it with Traversal()")


KERNELS: dict[type[Verifier], Callable[[OneText, Cycle], np.ndarray]] = {
    Greedy: _greedily,
    TopDown: _top_down,
    Traversal: _traversal,
    Block: _block,
    TreeMonteCarlo: _block,
    GreedyMultiPathBlock: _best_path,
}
"""What computes `Cycle.passed`, for each class of verifier."""


def can_replay(verifier: Verifier) -> bool:
    """Whether replay knows a verifier: every one of this package but `BottomUp` and `UniVer`."""
    return type(verifier) in KERNELS
