"""Plan: which tree, chain, or nothing, to verify, given measured acceptance and latency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spectheory.acceptance import Acceptance
from spectheory.latency import Latency
from spectheory.records import Provenance, Record
from spectheory.search import best_trees
from spectheory.tree import Tree
from spectheory.yields import block_efficiency, block_efficiency_interval, reach


@dataclass(frozen=True, eq=False)
class Plan(Record):
    """A tree to verify and what it is predicted to do. `Tree.chain(0)` means no speculation.

    Attributes:
        tree: the chosen tree.
        acceptance: the rates that the prediction rests on.
        context: tokens in the KV cache for which it was planned.
        block_efficiency: predicted tau, tokens per target call.
        block_efficiency_low, block_efficiency_high: 95% interval from the counts behind the rates, or None.
        draft_seconds, target_seconds, overhead_seconds: the predicted parts of one cycle.
        plain_seconds: predicted seconds per token of plain decoding.
        speedup: predicted seconds per token of plain decoding over those of this plan.
        tree_block_efficiency: (max_budget + 1,) the highest of each budget; entry 0 is no tree.
        tree_speedup: (max_budget + 1,) that of the fastest tree of each budget, which may be shallower.
        chain_block_efficiency, chain_speedup: (max_budget + 1,) the chain of each budget.
    """

    kind: ClassVar[str] = "plan"

    tree: Tree
    acceptance: Acceptance
    context: int
    block_efficiency: float
    block_efficiency_low: float | None
    block_efficiency_high: float | None
    draft_seconds: float
    target_seconds: float
    overhead_seconds: float
    plain_seconds: float
    speedup: float
    tree_block_efficiency: np.ndarray
    tree_speedup: np.ndarray
    chain_block_efficiency: np.ndarray
    chain_speedup: np.ndarray
    provenance: Provenance

    def __post_init__(self) -> None:
        for name in ("tree_block_efficiency", "tree_speedup", "chain_block_efficiency", "chain_speedup"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))

    @property
    def answer(self) -> str:
        """`off`, `chain` or `tree`."""
        if self.tree.budget == 0:
            return "off"
        return "chain" if self.tree.is_chain else "tree"

    @property
    def reach(self) -> np.ndarray:
        """(budget + 1,) predicted probability that each node is accepted."""
        return reach(self.tree, self.acceptance)

    @property
    def cycle_seconds(self) -> float:
        """Predicted seconds of one cycle."""
        return self.draft_seconds + self.target_seconds + self.overhead_seconds


@dataclass(frozen=True)
class _Candidate:
    tree: Tree
    block_efficiency: float
    speedup: float


def plan(
    acceptance: Acceptance,
    latency: Latency,
    *,
    max_budget: int = 64,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    context: int | None = None,
) -> Plan:
    """The tree, chain, or no speculation, of the highest predicted speedup over plain decoding.

    Every budget up to `max_budget` is searched; for each budget and each depth the tree of highest block efficiency
    is timed with the width of its levels. `context` defaults to the middle of the measured contexts.

    Raises:
        ValueError: `max_budget`, `max_depth` or `max_fanout` is below 1, or the budget needs more memory than there is.
    """
    if context is None:
        context = int(latency.contexts[len(latency.contexts) // 2])
    trees = list(_by_depth(acceptance, max_budget, max_depth, max_fanout))
    chains = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=1)
    free, chained = ([_timed(row, acceptance, latency, context) for row in rows] for rows in (trees, zip(chains)))
    best = max((*chained, *free), key=lambda candidate: (candidate.speedup, -candidate.tree.budget))
    low, high = (None, None) if acceptance.trials is None else block_efficiency_interval(best.tree, acceptance)
    return Plan(
        tree=best.tree,
        acceptance=acceptance,
        context=context,
        block_efficiency=best.block_efficiency,
        block_efficiency_low=low,
        block_efficiency_high=high,
        draft_seconds=latency.draft_levels(best.tree, context),
        target_seconds=latency.target(best.tree.budget + 1, context),
        overhead_seconds=latency.overhead(best.tree),
        plain_seconds=latency.plain(context),
        speedup=best.speedup,
        tree_block_efficiency=np.array([block_efficiency(unlimited, acceptance) for unlimited, *_ in trees]),
        tree_speedup=np.array([c.speedup for c in free]),
        chain_block_efficiency=np.array([c.block_efficiency for c in chained]),
        chain_speedup=np.array([c.speedup for c in chained]),
        provenance=Provenance.now("spectheory.plan", max_budget=max_budget),
    )


def _by_depth(
    acceptance: Acceptance, max_budget: int, max_depth: int | None, max_fanout: int | None
) -> Iterable[tuple[Tree, ...]]:
    """For each budget 0..max_budget the trees of highest block efficiency under the depth limits 1, 2, ..."""
    free = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=max_fanout)
    limits = range(1, free[-1].max_depth)
    limited = [best_trees(acceptance, max_budget, max_depth=limit, max_fanout=max_fanout) for limit in limits]
    return zip(free, *limited, strict=True)


def _timed(trees: Iterable[Tree], acceptance: Acceptance, latency: Latency, context: int) -> _Candidate:
    """The fastest of `trees`."""

    def timed(tree: Tree) -> _Candidate:
        tau = block_efficiency(tree, acceptance)
        return _Candidate(tree, tau, tau * latency.plain(context) / latency.cycle(tree, context))

    return max((timed(tree) for tree in trees), key=lambda candidate: candidate.speedup)
