"""`Outcome`, the exact distribution of one verification, and verification by coins, node after node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, excess, normalised, one_of
from spectheory.core.chance import draw
from spectheory.core.tree import Tree

Judged = Iterable[tuple[int, Any, Vector]]
"""(node, probability to accept it after the earlier rejections, next-token distribution), in the order of judging."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The exact distribution of one verification.

    Attributes:
        tree: the draft's tree, with n drafted nodes.
        stop: (n + 1,) probability that each node is the last accepted node.
        next_token: (n + 1, V) for each node, the distribution of the next token if this node is the last accepted node.
    """

    tree: Tree
    stop: Any
    next_token: Any

    @property
    def block_efficiency(self) -> Any:
        """E[tau] given the draft: 1 + the mean depth of the last accepted node."""
        return 1 + sum(stop * int(depth) for stop, depth in zip(self.stop, self.tree.depth, strict=True))

    @property
    def variance(self) -> Any:
        """Var[tau] given the draft."""
        mean = self.block_efficiency - 1
        return sum(stop * (int(depth) - mean) ** 2 for stop, depth in zip(self.stop, self.tree.depth, strict=True))

    def sample(self, rng: np.random.Generator) -> tuple[int, int]:
        """Draw (last accepted node, next token)."""
        node = draw(self.stop, rng)
        return node, draw(self.next_token[node], rng)


def judged_outcome(judged: Judged, p: Any) -> tuple[list[Any], list[Vector]]:
    """The fields `stop` and `next_token` of an outcome, if the first node whose coin succeeds is the last accepted one.

    `p` has the target's distribution at each of the nodes, which are all judged.
    """
    left = one_of(p[0])
    stop, next_token = [left] * len(p), list(p)
    for node, accepted, distribution in judged:
        stop[node], next_token[node] = left * accepted, distribution
        left = left * (1 - accepted)
    return stop, next_token


def judged_sample(judged: Judged, rng: np.random.Generator) -> tuple[int, int]:
    """Draw (last accepted node, next token); nodes that would be judged after the accepted node are not evaluated."""
    node, distribution = next((node, following) for node, accepted, following in judged if rng.random() < accepted)
    return node, draw(distribution, rng)


def shortfall(weight: Any, p: Vector, q: Vector) -> tuple[Any, Vector]:
    """The mass S = sum (w p - q)+ and the distribution N((w p - q)+), where w = `weight`; p if S is 0."""
    rest = excess(weight * p, q)
    return rest.sum(), normalised(rest, otherwise=p)


def coin(lacking: Any, weight: Any) -> Any:
    """S / (S + 1 - w), the probability to stop at an inner node of weight w after all nodes below it were rejected.

    For w = 1 and p = q this is 0 / 0. The node below is then always accepted, so any value is correct.
    """
    return share(lacking, lacking + (1 - weight))  # without the brackets, rounding could make it larger than 1


def share(mass: Any, total: Any) -> Any:
    """The share of the mass in the total; 1 for 0 / 0."""
    return mass / (total + (total == 0)) + (total == 0)
