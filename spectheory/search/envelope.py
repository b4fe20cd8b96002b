"""What engines with dynamic trees can verify: the envelope (levels, branching, nodes) of EAGLE-2.

SGLang, TensorRT-LLM, OpenVINO and the EAGLE repository grow a tree level by level, `branching` children below each of
the `branching` best nodes of the level before, and verify the best nodes of all levels. A free tree is projected onto
that family by asking which envelope is fastest, and what it loses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spectheory.acceptance import Acceptance
from spectheory.latency import Latency
from spectheory.tree import Tree


@dataclass(frozen=True)
class EnvelopePlan:
    """An envelope and the tree that it grows when a node is worth the product of the planned rates on its path.

    Attributes:
        levels: levels of drafted nodes.
        branching: children of a node, and nodes of a level that get children.
        tree: the drafted nodes kept.
        block_efficiency: predicted tau.
        speedup: predicted, with the draft forwards that the engine runs for it.
    """

    levels: int
    branching: int
    tree: Tree
    block_efficiency: float
    speedup: float

    @property
    def nodes(self) -> int:
        """Drafted nodes kept, root excluded."""
        return self.tree.budget


class Envelopes:
    """All envelopes up to given limits under one table of rates, grown once and timed as often as wanted.

    Args:
        acceptance: rates by depth and rank; ranks in the order in which the draft would rank them.
        max_levels: most levels.
        max_branching: most children; of a table with fewer ranks all of them.
        max_budget: most nodes kept.

    Raises:
        ValueError: a limit is below 1.
    """

    def __init__(self, acceptance: Acceptance, *, max_levels: int = 8, max_branching: int = 10, max_budget: int = 64):
        if min(max_levels, max_branching, max_budget) < 1:
            raise ValueError(
                "max_levels, max_branching and max_budget must be at least 1, got "
                f"{max_levels}, {max_branching} and {max_budget}"
            )
        branchings = range(1, min(max_branching, acceptance.ranks) + 1)
        self._grown = [_Grown(acceptance, max_levels, branching, max_budget) for branching in branchings]

    def yields(self) -> np.ndarray:
        """(max_budget + 1,) the highest block efficiency of an envelope of each number of nodes."""
        return np.max([grown.yields() for grown in self._grown], axis=0)

    def fastest(
        self, latency: Latency, context: int, most_nodes: Callable[[int, int], int] | None = None
    ) -> EnvelopePlan:
        """The envelope of highest speedup, of equal ones that of fewest levels and least branching.

        `most_nodes` is an engine's own bound on the nodes, by (levels, branching).
        """
        return max(
            (
                grown.fastest(levels, latency, context, most_nodes(levels, grown.branching) if most_nodes else None)
                for grown in self._grown
                for levels in grown.limits
            ),
            key=lambda plan: (plan.speedup, -plan.levels, -plan.branching),
        )


class _Grown:
    """The pool of one branching, down to the greatest number of levels."""

    def __init__(self, acceptance: Acceptance, max_levels: int, branching: int, max_budget: int) -> None:
        self.branching, self.limits, self.max_budget = branching, range(1, max_levels + 1), max_budget
        beam, self.score, self.depth, self.parent = np.array([0]), np.ones(1), np.zeros(1, int), np.full(1, -1)
        for depth in range(max_levels):
            rates = np.sort(acceptance.row(depth)[:branching])[::-1]
            first = len(self.score)
            self.parent = np.append(self.parent, np.repeat(beam, len(rates)))
            self.score = np.append(self.score, (self.score[beam][:, None] * rates).ravel())
            self.depth = np.append(self.depth, np.full(len(beam) * len(rates), depth + 1))
            beam = first + np.argsort(-self.score[first:], kind="stable")[:branching]

    def fastest(self, levels: int, latency: Latency, context: int, most: int | None) -> EnvelopePlan:
        """The best number of nodes, at most `most`, for so many levels."""
        kept = self._kept(levels)[: None if most is None else most + 1]
        tau = np.cumsum(self.score[kept])[1:]
        draft = latency.draft(1, context) + (levels - 1) * latency.draft(self.branching, context)
        target = np.array([latency.target(nodes + 2, context) for nodes in range(len(tau))])
        overhead = latency.overhead_seconds + levels * latency.level_overhead_seconds
        speedup = tau * latency.plain(context) / (draft + target + overhead)
        best = int(speedup.argmax())
        return EnvelopePlan(
            levels, self.branching, self._tree(kept[: best + 2]), float(tau[best]), float(speedup[best])
        )

    def yields(self) -> np.ndarray:
        """(max_budget + 1,) block efficiency of so many nodes of all levels."""
        tau = np.cumsum(self.score[self._kept(self.limits[-1])])
        return np.pad(tau, (0, self.max_budget + 1 - len(tau)), mode="edge")

    def _kept(self, levels: int) -> np.ndarray:
        """The root and the best nodes of the first levels, best first; a parent before its children."""
        pool = np.flatnonzero(self.depth <= levels)
        return pool[np.lexsort((pool, -self.score[pool]))][: self.max_budget + 1]

    def _tree(self, kept: np.ndarray) -> Tree:
        nodes = np.sort(kept)
        return Tree(np.append(-1, np.searchsorted(nodes, self.parent[nodes[1:]])))
