"""What engines with dynamic trees can verify: the envelope (levels, branching, nodes) of EAGLE-2.

SGLang, TensorRT-LLM, OpenVINO and the EAGLE repository grow a tree level by level, `branching` children below each of
the `branching` best nodes of the level before, and verify the best nodes of all levels. A free tree is projected onto
that family by asking which envelope is fastest, and what it loses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.search.beam import beam, draft_scores


@dataclass(frozen=True)
class EnvelopePlan:
    """An envelope and the tree that it grows when the draft's probabilities are the planned rates.

    Where a rate is above that of an earlier rank no draft has such probabilities, and those of
    `Acceptance.smoothed` stand for them: see `search.beam`. The tree is worth what the planned rates say.

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

    def speedup_at(self, latency: Latency, context: int) -> float:
        """Predicted speedup where forwards take these times."""
        overhead = latency.overhead_seconds + self.levels * latency.level_overhead_seconds
        drafting = latency.draft(1, context) + (self.levels - 1) * latency.draft(self.branching, context)
        seconds = drafting + latency.target(self.nodes + 1, context) + overhead
        return self.block_efficiency * latency.plain(context) / seconds


class Envelopes:
    """All envelopes up to given limits under one table of rates, grown once and timed as often as wanted.

    Args:
        acceptance: rates by depth and rank; ranks in the order in which the draft would rank them.
        max_levels: most levels; None for as many as change the tree.
        max_branching: most children; None for all ranks. No more than `max_budget`, which changes no tree.
        max_budget: most nodes kept.

    Raises:
        InputError: a limit is below 1.
    """

    def __init__(
        self,
        acceptance: Acceptance,
        *,
        max_levels: int | None = None,
        max_branching: int | None = None,
        max_budget: int = 64,
    ) -> None:
        limits = {"max_levels": max_levels, "max_branching": max_branching, "max_budget": max_budget}
        for name, limit in limits.items():
            if limit is not None:
                check_whole(name, limit, 1, "")
        self._max_budget, levels = max_budget, min(max_levels or max_budget, max_budget)
        branchings = range(1, min(max_branching or max_budget, acceptance.ranks, max_budget) + 1)
        rates, scores = acceptance.table, draft_scores(acceptance)
        self._grown = [list(beam(rates[:, :k], scores[:, :k], k, levels, max_budget)) for k in branchings]

    def yields(self) -> np.ndarray:
        """(max_budget + 1,) the highest block efficiency of an envelope of each number of nodes."""
        most = self._max_budget + 1
        yields = [grown.yields() for by_level in self._grown for grown in by_level]
        return np.max([np.ones(most), *(np.pad(tau, (0, most - len(tau)), mode="edge") for tau in yields)], axis=0)

    def fastest(
        self, latency: Latency, context: int, most_nodes: Callable[[int, int], int] | None = None
    ) -> EnvelopePlan:
        """The envelope of highest speedup, of equal ones that of fewest levels, least branching and fewest nodes.

        `most_nodes` is an engine's own bound on the nodes, by (levels, branching).

        Raises:
            InputError: no rate at the root is above 0, so that there is nothing to draft.
        """
        return self.fastest_over([latency], context, np.ones(1), most_nodes)

    def fastest_over(
        self,
        latencies: Sequence[Latency],
        context: int,
        speedups: np.ndarray,
        most_nodes: Callable[[int, int], int] | None = None,
    ) -> EnvelopePlan:
        """The one envelope for all `latencies` of highest mean share of `speedups`, (B,), those of a plan.

        Its `speedup` is that at the first of them. Ties and errors are those of `fastest`.
        """
        draft, target = np.swapaxes([at.curves(self._max_budget + 1, context) for at in latencies], 0, 1)
        weights = np.array([at.plain(context) for at in latencies]) / speedups
        fixed, level = np.array([(at.overhead_seconds, at.level_overhead_seconds) for at in latencies]).T
        found = []
        for branching, by_level in enumerate(self._grown, 1):
            for levels, grown in enumerate(by_level, 1):
                tau = grown.yields()[1 : None if most_nodes is None else most_nodes(levels, branching) + 1]
                once = draft[:, 0] + (levels - 1) * draft[:, branching - 1] + fixed + levels * level
                shares = weights @ (tau / (once[:, None] + target[:, 1 : len(tau) + 1]))
                best = int(shares.argmax())
                found.append((shares[best], -levels, -branching, best + 1, grown))
        if not found:
            raise InputError("acceptance has no rate above 0 at the root: there is nothing to draft")
        _, levels, branching, nodes, grown = max(found, key=lambda entry: entry[:3])
        tree, tau = Tree(grown.parent[: nodes + 1]), float(grown.yields()[nodes])
        untimed = EnvelopePlan(-levels, -branching, tree, tau, 0.0)
        return replace(untimed, speedup=untimed.speedup_at(latencies[0], context))
