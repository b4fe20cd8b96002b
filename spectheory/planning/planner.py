"""Plan: which tree, chain, or nothing, to verify, given measured acceptance and latency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import Candidates, Progress, unwatched
from spectheory.yields import block_efficiency_interval, reach


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
        tree_speedup: (max_budget + 1,) that of the fastest tree of each budget, which may be shallower or narrower.
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


def assumed_of(acceptance: Acceptance, trees: Iterable[Tree], latencies: Iterable[Latency]) -> tuple[str, ...]:
    """What the prediction for `trees` takes for granted, a sentence each: of the rates, of the times."""
    latencies, deepest = list(latencies), max(tree.max_depth for tree in trees)
    deeper = (
        [
            f"rates are known to depth {acceptance.depths} alone: those of the last depth are taken for deeper nodes, "
            f"in trees and chains down to depth {deepest}"
        ]
        if deepest > acceptance.depths
        else []
    )
    measured, planned = (_pair_of(record.provenance) for record in (acceptance, latencies[0]))
    other = [f"rates were measured on {measured} and are taken for {planned}"] if measured and planned else []
    times = (sentence for latency in latencies for sentence in latency.provenance.assumed)
    every = (*acceptance.provenance.assumed, *other * (measured != planned), *deeper, *times)
    return tuple(dict.fromkeys(every))


def _pair_of(stamp: Provenance) -> str | None:
    """`target with draft` as a record of rates or times names them; None where it does not."""
    names = stamp.details.get("target"), stamp.details.get("draft", stamp.details.get("drafter"))
    return f"{names[0]} with {names[1]}" if all(names) else None


def answer_of(tree: Tree) -> str:
    """`off`, `chain` or `tree`."""
    if tree.budget == 0:
        return "off"
    return "chain" if tree.is_chain else "tree"


def plan(
    acceptance: Acceptance,
    latency: Latency,
    *,
    max_budget: int = 64,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    context: int | None = None,
    progress: Progress = unwatched,
) -> Plan:
    """The tree, chain, or no speculation, of the highest predicted speedup over plain decoding.

    Every budget up to `max_budget` is searched; for each budget, depth and width of a level the tree of highest block
    efficiency is timed: see `Candidates` for how near that comes to all trees. `context` defaults to the middle of the
    measured contexts; `progress` is told how far the search is.

    Raises:
        InputError: `max_budget`, `max_depth` or `max_fanout` is below 1, the budget needs more memory than there is, or
            `context` is outside the measured ones.
    """
    context = latency.context_of(context)
    candidates = Candidates(acceptance, max_budget, max_depth, max_fanout, progress)
    return fastest_plan(candidates, acceptance, latency, context)


def fastest_plan(candidates: Candidates, acceptance: Acceptance, latency: Latency, context: int) -> Plan:
    """The fastest of `candidates`, which come from `acceptance`, as a plan."""
    speedups = candidates.speedups(latency, context)
    best = candidates.fastest(speedups)
    tree = candidates.tree(best)
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
        provenance=Provenance.now("spectheory.plan", max_budget=len(candidates.free) - 1)
        .noting(**latency.provenance.placement)
        .assuming(*assumed_of(acceptance, [tree], [latency])),
    )
