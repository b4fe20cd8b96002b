"""Plan: which tree, chain, or nothing, to verify, given measured acceptance and latency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from spectheory.acceptance import Acceptance
from spectheory.latency import Latency
from spectheory.records import Provenance, Record
from spectheory.search import best_trees
from spectheory.search.beam import beam, draft_scores
from spectheory.search.memory import require_memory
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


Progress = Callable[[int, int], None]
"""Told how many parts of a search are done, and of how many."""


def unwatched(finished: int, total: int) -> None:
    """Nobody is told."""


TREES_BYTES = 80
"""For each budget squared and each limit of depth, what `Candidates` takes at its peak: 30 to 76 were measured, for
trees of depth 10 to 97, 3 to 16 ranks and budgets 300 and 600. Rates that rise in rank somewhere take more, which is
not known here: 636 at budget 300 and 439 at 1000, of a trace as it was counted."""


class Candidates:
    """The trees worth timing: of highest block efficiency for each budget and each limit of depth and of width.

    The width of a tree is the most nodes with children at one depth, the tokens of its widest draft forward. Where a
    draft forward costs the same at every width, the fastest tree of all is among them. Where wide ones cost more, a
    tree of other widths at other depths can be faster: over all 6,918 trees of up to 9 nodes, 150 drawn tables of rates
    and costs up to quadratic in the width, by 0.6% at worst and 0.004% on average, where limits of depth alone lost
    6.5% and 0.24%. Where rates are not non-increasing in rank, the trees of less than full width are those of the beams
    of `search.beam` of every fan-out, not the best of all.

    They depend on the acceptance alone, so that one search serves every latency, batch size and context.

    Attributes:
        block_efficiency: (M,) of each; the first is the root alone.
        free: (max_budget + 1,) for each budget the candidate of highest block efficiency, whatever its depth.
        chains: (max_budget + 1,) for each budget its chain; the deepest allowed where that is shorter.
    """

    def __init__(
        self,
        acceptance: Acceptance,
        max_budget: int,
        max_depth: int | None = None,
        max_fanout: int | None = None,
        progress: Progress = unwatched,
    ) -> None:
        free = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=max_fanout)
        chains = best_trees(acceptance, max_budget, max_depth=max_depth, max_fanout=1)
        limits, chains_only = range(1, free[-1].max_depth), min(acceptance.ranks, max_fanout or max_budget) == 1
        if not chains_only:
            require_memory(lambda n: TREES_BYTES * (len(limits) + 1) * n * n, max_budget)
        limited = []
        for limit in () if chains_only else limits:
            progress(limit - 1, len(limits) + len(WIDTHS))
            limited.append(best_trees(acceptance, max_budget, max_depth=limit, max_fanout=max_fanout))
        number: dict[Tree, int] = {}
        self.free, self.chains, *rows = (
            np.array([number.setdefault(tree, len(number)) for tree in row]) for row in (free, chains, *limited)
        )
        if chains_only:  # those of a depth limit are among the free ones
            rows = [self.free[np.minimum(np.arange(max_budget + 1), limit)] for limit in limits]
        self._by_budget = np.array([self.free, *rows])
        found = [(t.parent, block_efficiency(t, acceptance), t.max_depth, t.level_widths()) for t in number]
        narrower = _narrow(acceptance, max_budget, max_depth or max_budget, max_fanout or max_budget)
        for tried, narrow in enumerate(() if chains_only else narrower):
            progress(len(limits) + min(tried, len(WIDTHS)), len(limits) + len(WIDTHS))
            found += narrow
        self._parents, tau, depth, widths = zip(*found, strict=True)
        self.block_efficiency, self._depth = np.array(tau), np.array(depth)
        self._budget = np.array([len(parent) - 1 for parent in self._parents])
        self._starts = np.cumsum([0, *(1 + len(levels) for levels in widths[:-1])])
        self._widths = np.concatenate([part for levels in widths for part in ([0], levels)])

    def tree(self, number: int) -> Tree:
        """The candidate of that number."""
        return Tree(self._parents[number])

    def speedups(self, latency: Latency, context: int) -> np.ndarray:
        """(M,) plain seconds per token over each candidate's."""
        draft, target = latency.curves(len(self.free), context)
        overhead = latency.overhead_seconds + self._depth * latency.level_overhead_seconds
        overhead[0] = latency.plain_overhead_seconds
        drafting = np.add.reduceat(np.append(0, draft)[self._widths], self._starts)
        cycle = drafting + target[self._budget] + overhead
        return self.block_efficiency * latency.plain(context) / cycle

    def fastest(self, speedups: np.ndarray, among: np.ndarray | None = None) -> int:
        """The candidate of highest speedup, of equal ones the smallest; of those numbered `among`, where given."""
        numbers = np.arange(len(self._budget)) if among is None else among
        return int(numbers[np.lexsort((self._budget[numbers], -speedups[numbers]))[0]])

    def fastest_by_budget(self, speedups: np.ndarray) -> np.ndarray:
        """(max_budget + 1,) the highest speedup over the limits of depth and of width, for each budget."""
        fastest = speedups[self._by_budget].max(0)
        np.maximum.at(fastest, self._budget, speedups)
        return fastest


WIDTHS = (*range(1, 17), *(2**doubling for doubling in range(5, 26)))
"""Limits of width; more of them would make large budgets slow."""


def _narrow(
    acceptance: Acceptance, max_budget: int, max_levels: int, max_fanout: int
) -> Iterator[list[tuple[np.ndarray, float, int, np.ndarray]]]:
    """(parent, block efficiency, depth, level widths) of each tree of a beam, at the least limits that give it.

    A list for each fan-out and width.
    """
    most, scores = min(acceptance.ranks, max_fanout, max_budget), draft_scores(acceptance)
    for fanout in [most] if acceptance.is_antitonic else range(1, most + 1):
        rates = acceptance.table[:, :fanout], scores[:, :fanout]
        for before, width in pairwise((0, *WIDTHS)):
            reached, found = False, []
            for levels, grown in enumerate(beam(*rates, width, max_levels, max_budget), 1):
                parents, tau = grown.parents(), grown.yields()
                new = (parents.max(1) > before) & (np.maximum.accumulate(grown.depth) == levels)
                reached |= bool(new.any())
                if not acceptance.is_antitonic:
                    new &= np.maximum.accumulate(grown.rank) == fanout - 1
                found += [(grown.parent[: n + 1], tau[n], levels, parents[n]) for n in np.flatnonzero(new)]
            yield found
            if not reached:
                break


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
        ValueError: `max_budget`, `max_depth` or `max_fanout` is below 1, the budget needs more memory than there is, or
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
