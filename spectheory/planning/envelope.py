"""Envelopes: the settings (levels, branching, nodes) of engines that grow dynamic trees as EAGLE-2 does.

SGLang, TensorRT-LLM, OpenVINO and the EAGLE repository cannot verify every tree. They grow a tree level by level, with
`branching` children below each of the `branching` best nodes of the previous level, and verify the best `nodes` nodes
of all levels. The planner searches for the fastest envelope and reports how much slower it is than the fastest tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.search.beam import beam, draft_scores


@dataclass(frozen=True)
class EnvelopePlan:
    """An envelope, and the tree that it grows if the draft's probabilities equal the planned rates.

    A draft's probabilities never increase with rank. If the planned rates increase with rank somewhere, the tree is
    grown with the rates of `Acceptance.smoothed` instead (see `search.beam`). The block efficiency of the tree is
    computed from the planned rates.

    Attributes:
        levels: number of levels of drafted nodes.
        branching: number of children of a node, and also the number of nodes of a level that get children.
        tree: the tree of the drafted nodes that are kept.
        block_efficiency: predicted tau.
        speedup: predicted speedup, including the draft forwards that the engine runs.
    """

    levels: int
    branching: int
    tree: Tree
    block_efficiency: float
    speedup: float

    @property
    def nodes(self) -> int:
        """Number of drafted nodes that are kept, root excluded."""
        return self.tree.budget

    def speedup_at(self, latency: Latency, context: int) -> float:
        """Predicted speedup with the forward times of `latency`."""
        if latency.drafts_at_once:
            drafting = latency.draft(self.levels, context)
        else:
            drafting = latency.draft(1, context) + (self.levels - 1) * latency.draft(self.branching, context)
        overhead = float(latency.overheads(self.levels, self.nodes if self.branching > 1 else 0))
        seconds = drafting + latency.target(self.nodes + 1, context) + overhead
        seconds += float(latency.prompts(self.block_efficiency))
        return self.block_efficiency * latency.plain(context) / seconds


class Envelopes:
    """All envelopes up to given limits, for one table of rates. They are grown once and can be timed many times.

    Args:
        acceptance: rates by depth and rank, where rank 0 is the draft's most probable token.
        max_levels: maximum number of levels; None for `max_budget` levels.
        max_branching: maximum number of children of a node; None for all ranks.
        max_budget: maximum number of nodes that are kept.

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
                check_whole(name, limit, 1)
        self._max_budget, levels = max_budget, min(max_levels or max_budget, max_budget)
        branchings = range(1, min(max_branching or max_budget, acceptance.ranks, max_budget) + 1)
        rates, scores = acceptance.table, draft_scores(acceptance)
        self._grown = [list(beam(rates[:, :k], scores[:, :k], k, levels, max_budget)) for k in branchings]

    def yields(self) -> Float[np.ndarray, " budgets"]:
        """For each number of nodes, the highest block efficiency of an envelope."""
        most = self._max_budget + 1
        yields = [grown.yields() for by_level in self._grown for grown in by_level]
        return np.max([np.ones(most), *(np.pad(tau, (0, most - len(tau)), mode="edge") for tau in yields)], axis=0)

    def fastest(
        self, latency: Latency, context: int, most_nodes: Callable[[int, int], int] | None = None
    ) -> EnvelopePlan:
        """The envelope of highest speedup. Ties go to fewer levels, then to less branching, then to fewer nodes.

        `most_nodes` is an engine's own limit: it returns the maximum number of nodes for (levels, branching).

        Raises:
            InputError: all rates at the root are 0, so there is nothing to draft.
        """
        return self.fastest_over([latency], context, np.ones(1), most_nodes)

    def fastest_over(
        self,
        latencies: Sequence[Latency],
        context: int,
        speedups: np.ndarray,
        most_nodes: Callable[[int, int], int] | None = None,
    ) -> EnvelopePlan:
        """The envelope that is best for all `latencies` together.

        `speedups` (B,) are the speedups of a plan at each latency. The result has the highest mean of its own speedup
        divided by the plan's speedup. Its field `speedup` is for the first latency. Ties, `most_nodes` and errors are
        the same as for `fastest`.
        """
        draft, target = np.swapaxes([at.curves(self._max_budget + 1, context) for at in latencies], 0, 1)
        weights = np.array([at.plain(context) for at in latencies]) / speedups
        at_once = np.array([at.drafts_at_once for at in latencies])
        nodes = np.arange(1, self._max_budget + 1)
        found = []
        for branching, by_level in enumerate(self._grown, 1):
            for levels, grown in enumerate(by_level, 1):
                tau = grown.yields()[1 : None if most_nodes is None else most_nodes(levels, branching) + 1]
                one_by_one = draft[:, 0] + (levels - 1) * draft[:, branching - 1]
                once = np.where(at_once, draft[:, levels - 1], one_by_one)
                masked = nodes[: len(tau)] if branching > 1 else np.zeros(len(tau))
                fixed = np.array([at.overheads(levels, masked) for at in latencies])
                prompts = np.array([at.prompts(tau) for at in latencies])
                shares = weights @ (tau / (once[:, None] + fixed + target[:, 1 : len(tau) + 1] + prompts))
                best = int(shares.argmax())
                found.append((shares[best], -levels, -branching, best + 1, grown))
        if not found:
            raise InputError("acceptance has no rate above 0 at the root: there is nothing to draft")
        _, levels, branching, nodes, grown = max(found, key=lambda entry: entry[:3])
        tree, tau = Tree(grown.parent[: nodes + 1]), float(grown.yields()[nodes])
        untimed = EnvelopePlan(-levels, -branching, tree, tau, 0.0)
        return replace(untimed, speedup=untimed.speedup_at(latencies[0], context))
