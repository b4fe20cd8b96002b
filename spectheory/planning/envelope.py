"""Envelopes: the settings (levels, branching, nodes) of engines that grow dynamic trees as EAGLE-2 does.

SGLang, TensorRT-LLM, OpenVINO and the EAGLE repository cannot verify every tree. They grow a tree level by level, with
`branching` children below each of the `branching` best nodes of the previous level, and verify the best `nodes` nodes
of all levels. The planner searches for the fastest envelope and reports how much slower it is than the fastest tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.search.beam import beam, draft_scores


@dataclass(frozen=True)
class Envelope:
    """The limits within which an engine grows a tree by draft score (EAGLE-2).

    Attributes:
        levels: number of levels of drafted nodes, the root excluded.
        branching: number of children drafted for each of the `branching` best nodes of a level.
        nodes: number of drafted nodes that are kept and verified, the root excluded.

    Raises:
        InputError: a value is not a whole number of at least 1, or more `nodes` are kept than are drafted.
    """

    levels: int
    branching: int
    nodes: int

    def __post_init__(self) -> None:
        for name in ("levels", "branching", "nodes"):
            check_whole(name, getattr(self, name), 1)
        if self.nodes > self.pool:
            raise InputError(
                f"nodes must be at most branching + (levels - 1) * branching^2 = {self.pool}, the drafted nodes "
                f"for levels={self.levels} and branching={self.branching}, got {self.nodes}"
            )

    @property
    def pool(self) -> int:
        """Number of drafted nodes, of which the `nodes` best are kept."""
        return self.branching + (self.levels - 1) * self.branching**2


@dataclass(frozen=True, eq=False)
class PlannedEnvelope:
    """An envelope, and the tree that it grows if the draft's probabilities equal the planned rates.

    A draft's probabilities never increase with rank. If the planned rates increase with rank somewhere, the tree is
    grown with the rates of `Acceptance.smoothed` instead (see `search.beam`). The block efficiency of the tree is
    computed from the planned rates.

    Attributes:
        envelope: the envelope.
        tree: the tree of the drafted nodes that are kept.
        block_efficiency: predicted tau.
        speedups: (B,) predicted speedup with each latency, including the draft forwards that the engine runs.
    """

    envelope: Envelope
    tree: Tree
    block_efficiency: float
    speedups: Float[np.ndarray, " batches"]


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
        self,
        latencies: Sequence[Latency],
        context: int,
        weights: Float[np.ndarray, " batches"],
        most_nodes: Callable[[int, int], int] | None = None,
    ) -> PlannedEnvelope:
        """The envelope with the highest sum of `weights` times its speedups with the `latencies`.

        Ties go to fewer levels, then to less branching, then to fewer nodes. `most_nodes` is an engine's own limit: it
        returns the maximum number of nodes for (levels, branching).

        Raises:
            InputError: all rates at the root are 0, so there is nothing to draft.
        """
        draft, target = np.swapaxes([at.curves(self._max_budget + 1, context) for at in latencies], 0, 1)
        plain = np.array([[at.plain(context)] for at in latencies])
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
                speedups = tau * plain / (once[:, None] + fixed + target[:, 1 : len(tau) + 1] + prompts)
                shares = weights @ speedups
                best = int(shares.argmax())
                found.append((shares[best], -levels, -branching, best, grown, speedups[:, best]))
        if not found:
            raise InputError("acceptance has no rate above 0 at the root: there is nothing to draft")
        _, levels, branching, best, grown, speedups = max(found, key=lambda entry: entry[:3])
        tree, tau = Tree(grown.parent[: best + 2]), float(grown.yields()[best + 1])
        return PlannedEnvelope(Envelope(-levels, -branching, best + 1), tree, tau, speedups)
