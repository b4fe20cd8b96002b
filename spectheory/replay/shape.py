"""The shapes that replay knows: trees and draw policies, as states that a text passes through on its way down."""

from __future__ import annotations

from typing import Protocol

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.core.world import DrawPolicy

State = int
"""The node of a tree; in a policy the number of draws that have hit the node."""


class Shape(Protocol):
    """How a draft grows along a text. `Root` is the first state.

    Attributes:
        root: the state at the root.
        rule: how children are drawn.
    """

    root: State
    rule: DrawRule

    def draws(self, depth: int, state: State) -> int:
        """Number of draws below a node at `depth`."""
        ...

    def child(self, state: State, place: int, hits: int) -> State:
        """The state of a child that was the `place`-th distinct token drawn and was hit by `hits` draws."""
        ...


class TreeShape:
    """A static tree: the distinct tokens drawn at a node fill its children in order."""

    def __init__(self, tree: Tree, rule: DrawRule) -> None:
        self.root, self.rule, self._children = 0, rule, tree.child_lists

    def draws(self, depth: int, state: State) -> int:
        """See Shape.draws."""
        return len(self._children[state])

    def child(self, state: State, place: int, hits: int) -> State:
        """See Shape.child."""
        return self._children[state][place]


class PolicyShape:
    """A draw policy such as `Levels` or `Paths`: what grows below a node depends on its depth and on its hits."""

    def __init__(self, policy: DrawPolicy) -> None:
        self.root, self.rule, self._policy = 1, policy.rule, policy

    def draws(self, depth: int, state: State) -> int:
        """See Shape.draws."""
        return self._policy.draws(depth, state)

    def child(self, state: State, place: int, hits: int) -> State:
        """See Shape.child."""
        return hits


def shape_of(shape: Tree | DrawPolicy, rule: DrawRule | None) -> Shape:
    """`shape` as states.

    Raises:
        InputError: a tree without a rule, or a policy with another rule than its own.
    """
    if isinstance(shape, DrawPolicy):
        if rule not in (None, shape.rule):
            raise InputError(f"rule must be {shape.rule.name}, the rule of the policy, or left out, got {rule}")
        return PolicyShape(shape)
    if rule is None:
        raise InputError("rule must say how the children of a tree are drawn, such as DrawRule.NO_REPLACEMENT")
    return TreeShape(shape, rule)
