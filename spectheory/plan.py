"""Plan: which tree, chain, or nothing, to verify, given measured acceptance and latency."""

from __future__ import annotations

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
        return answer_of(self.tree)

    @property
    def reach(self) -> np.ndarray:
        """(budget + 1,) predicted probability that each node is accepted."""
        return reach(self.tree, self.acceptance)

    @property
    def cycle_seconds(self) -> float:
        """Predicted seconds of one cycle."""
        return self.draft_seconds + self.target_seconds + self.overhead_seconds


def answer_of(tree: Tree) -> str:
    """`off`, `chain` or `tree`."""
    if tree.budget == 0:
        return "off"
    return "chain" if tree.is_chain else "tree"


class Candidates:
    """The trees worth timing: for each budget and each depth limit the one of highest block efficiency.

    They depend on the acceptance alone, so that one search serves every latency, batch size and context.

    Attributes:
        trees: the candidates, each once; the root alone is the first.
        block_efficiency: (M,) of each.
        free: (max_budget + 1,) for each budget the candidate of highest block efficiency, whatever its depth.
        chains: (max_budget + 1,) for each budget its chain; the deepest allowed where that is shorter.
    """

    def __init__(
        self, acceptance: Acceptance, max_budget: int, max_depth: int | None = None, max_fanout: int | None = None
    ) -> None:
        free = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=max_fanout)
        chains = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=1)
        limits = range(1, free[-1].max_depth)
        limited = [best_trees(acceptance, max_budget, max_depth=limit, max_fanout=max_fanout) for limit in limits]
        number: dict[Tree, int] = {}
        self.free, self.chains, *rows = (
            np.array([number.setdefault(tree, len(number)) for tree in row]) for row in (free, chains, *limited)
        )
        self._by_budget = np.array([self.free, *rows])
        self.trees = list(number)
        self.block_efficiency = np.array([block_efficiency(tree, acceptance) for tree in self.trees])
        self._budget = np.array([tree.budget for tree in self.trees])
        self._depth = np.array([tree.max_depth for tree in self.trees])
        self._widths = np.zeros((len(self.trees), max_budget + 2))
        for row, tree in zip(self._widths, self.trees, strict=True):
            np.add.at(row, tree.level_widths(), 1)

    def speedups(self, latency: Latency, context: int) -> np.ndarray:
        """(M,) plain seconds per token over each candidate's."""
        tokens = range(1, self._widths.shape[1])
        draft, target = (np.array([at(n, context) for n in tokens]) for at in (latency.draft, latency.target))
        overhead = latency.overhead_seconds + self._depth * latency.level_overhead_seconds
        overhead[self._budget == 0] = latency.plain_overhead_seconds
        cycle = self._widths[:, 1:] @ draft + target[self._budget] + overhead
        return self.block_efficiency * latency.plain(context) / cycle

    def fastest(self, speedups: np.ndarray, among: np.ndarray | None = None) -> int:
        """The candidate of highest speedup, of equal ones the smallest; of those numbered `among`, where given."""
        numbers = np.arange(len(self.trees)) if among is None else among
        return int(numbers[np.lexsort((self._budget[numbers], -speedups[numbers]))[0]])

    def fastest_by_budget(self, speedups: np.ndarray) -> np.ndarray:
        """(max_budget + 1,) the highest speedup over the depth limits, for each budget."""
        return speedups[self._by_budget].max(0)


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
    candidates = Candidates(acceptance, max_budget, max_depth, max_fanout)
    return fastest_plan(candidates, acceptance, latency, context)


def fastest_plan(candidates: Candidates, acceptance: Acceptance, latency: Latency, context: int) -> Plan:
    """The fastest of `candidates`, which come from `acceptance`, as a plan."""
    speedups = candidates.speedups(latency, context)
    best = candidates.fastest(speedups)
    tree = candidates.trees[best]
    low, high = (None, None) if acceptance.trials is None else block_efficiency_interval(tree, acceptance)
    return Plan(
        tree=tree,
        acceptance=acceptance,
        context=context,
        block_efficiency=float(candidates.block_efficiency[best]),
        block_efficiency_low=low,
        block_efficiency_high=high,
        draft_seconds=latency.draft_levels(tree, context),
        target_seconds=latency.target(tree.budget + 1, context),
        overhead_seconds=latency.overhead(tree),
        plain_seconds=latency.plain(context),
        speedup=float(speedups[best]),
        tree_block_efficiency=candidates.block_efficiency[candidates.free],
        tree_speedup=candidates.fastest_by_budget(speedups),
        chain_block_efficiency=candidates.block_efficiency[candidates.chains],
        chain_speedup=speedups[candidates.chains],
        provenance=Provenance.now("spectheory.plan", max_budget=len(candidates.free) - 1),
    )
