"""`ActionSpace`, the delayed trees that a selector chooses from, their seconds, and the best tree for all roots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.checks import check_counts
from spectheory.core.world import Paths
from spectheory.hardware.latency import Latency
from spectheory.yields.delayed import delayed_seconds


class Action(NamedTuple):
    """A delayed tree: a trunk of `trunk` drawn tokens (L1), then `paths` (K) i.i.d. paths of `length` tokens (L2)."""

    paths: int
    trunk: int
    length: int

    @property
    def policy(self) -> Paths:
        """The policy that draws the tree."""
        return Paths(self.paths, self.length, self.trunk)

    def __str__(self) -> str:
        return f"({self.paths}, {self.trunk}, {self.length})"


@dataclass(frozen=True)
class ActionSpace:
    """All actions (K, L1, L2) with 1 <= K <= `paths`, 0 <= L1 <= `trunk` and 0 <= L2 <= `length`.

    The source counts 4 x 9 x 9 = 324 actions, of which only 233 are different trees: without tokens after the trunk the
    number of paths does not matter, and one path after a trunk is a longer chain. So there are 17 chains and 216 trees
    of 2 to 4 paths. A network with one output for each action splits the probability of a tree among its equal actions,
    so that its largest output may belong to a worse tree. Here each different tree has one label, one time and one
    output. A chain is written as one path without a trunk.

    Source: Dynamic Delayed Tree Expansion, Section 6 and Eq. (8).

    >>> len(ActionSpace().trees)
    233
    """

    paths: int = 4
    trunk: int = 8
    length: int = 8

    def __post_init__(self) -> None:
        check_counts(1, paths=self.paths, trunk=self.trunk, length=self.length)

    @cached_property
    def trees(self) -> tuple[Action, ...]:
        """The different trees: the chains by length, then the trees of 2 and more paths in the order of Eq. (8)."""
        branching = product(range(2, self.paths + 1), range(self.trunk + 1), range(1, self.length + 1))
        return (*(Action(1, 0, length) for length in range(self.deepest + 1)), *(Action(*one) for one in branching))

    @property
    def deepest(self) -> int:
        """Number of tokens of the longest path."""
        return self.trunk + self.length

    def seconds(self, latency: Latency, contexts: Int[np.ndarray, " contexts"]) -> Float[np.ndarray, "contexts trees"]:
        """Seconds of a cycle with each tree after each number of cached tokens, by `delayed_seconds`.

        Eq. (11) of the source charges a forward of many tokens as a forward of one token after more cached tokens, and
        counts K - 1 cached tokens too many for each level of the branches but the first. `delayed_seconds` says what
        is charged instead. As in Eq. (11), no two paths of a tree share a token.
        """
        known, place = np.unique(contexts, return_inverse=True)
        rows = [
            [delayed_seconds(latency, tree.paths, tree.length, tree.trunk, int(one)) for tree in self.trees]
            for one in known
        ]
        return np.array(rows)[place]


def best_static(tokens: np.ndarray, seconds: np.ndarray) -> int:
    """The tree of the highest throughput if all roots (R, trees) take it: the ratio of the sums."""
    return int((tokens.sum(0) / seconds.sum(0)).argmax())
