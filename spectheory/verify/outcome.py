"""`Outcome`, the exact distribution of one verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spectheory.core.chance import draw
from spectheory.core.tree import Tree


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
