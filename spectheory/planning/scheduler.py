"""Schedule: what to verify at each batch size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import Candidates, Progress, unwatched
from spectheory.planning.planner import answer_of, assumed_of
from spectheory.yields import block_efficiency_interval

MOST_BATCHES = 10_000
"""Batch sizes of one schedule at most: each is timed with every candidate."""


@dataclass(frozen=True, eq=False)
class Schedule(Record):
    """The fastest tree, chain, or nothing, for each batch size, and what it is predicted to do.

    Fastest of the trees of highest block efficiency for each budget, depth and width of a level: see `plan.Candidates`.

    Attributes:
        acceptance: the rates that the predictions rest on.
        context: tokens in the KV cache of each sequence.
        batches: (B,) batch sizes, increasing.
        trees: the trees that are fastest somewhere, or the fastest chain somewhere.
        choice: (B,) index of the fastest tree.
        chain_choice: (B,) index of the fastest chain, no speculation among them.
        block_efficiency: (T,) predicted tau of each tree.
        block_efficiency_low, block_efficiency_high: (T,) 95% interval from the counts behind the rates, or None.
        speedup, chain_speedup: (B,) seconds per token of plain decoding over those of the choice.
        computed: (B,) whether the seconds come from a roofline, not from a measurement.
        plain_seconds: (B,) of one plain step, one token for each sequence.
        draft_seconds, target_seconds, overhead_seconds: (B,) the parts of a cycle of the choice.
    """

    kind: ClassVar[str] = "schedule"
    schema: ClassVar[int] = 2

    acceptance: Acceptance
    context: int
    batches: np.ndarray
    trees: tuple[Tree, ...]
    choice: np.ndarray
    chain_choice: np.ndarray
    block_efficiency: np.ndarray
    block_efficiency_low: np.ndarray | None
    block_efficiency_high: np.ndarray | None
    speedup: np.ndarray
    chain_speedup: np.ndarray
    computed: np.ndarray
    plain_seconds: np.ndarray
    draft_seconds: np.ndarray
    target_seconds: np.ndarray
    overhead_seconds: np.ndarray
    provenance: Provenance

    def answer(self, row: int) -> str:
        """`off`, `chain` or `tree` at batches[row]."""
        return answer_of(self.trees[self.choice[row]])

    @property
    def tokens_per_second(self) -> np.ndarray:
        """(B,) predicted over all sequences of the batch."""
        return self.batches * self.speedup / self.plain_seconds

    @property
    def speedup_interval(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(B,) 95% interval of the speedup from the counts behind the rates, or None; times are taken as exact."""
        if self.block_efficiency_low is None or self.block_efficiency_high is None:
            return None, None
        per_tau = self.speedup / self.block_efficiency[self.choice]
        return per_tau * self.block_efficiency_low[self.choice], per_tau * self.block_efficiency_high[self.choice]

    @property
    def is_sparse(self) -> bool:
        """Whether batch sizes between the first and the last were left out."""
        return bool((np.diff(self.batches) > 1).any())

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the predictions take for granted, a sentence each."""
        return self.provenance.assumed

    @property
    def break_even(self) -> int | None:
        """The planned batch size from which on nothing beats plain decoding; None if something does at the last.

        Below it something mostly does, not always: a few more tokens take many more experts of a mixture, as long as
        batches are small. `ranges` has every one.
        """
        pays = np.flatnonzero([self.trees[i].budget for i in self.choice])
        start = int(pays[-1]) + 1 if len(pays) else 0
        return int(self.batches[start]) if start < len(self.batches) else None

    def ranges(self) -> list[tuple[int, int, Tree]]:
        """(first batch, last batch, tree) with one choice in a row."""
        return self._merged(self.choice)

    def chain_ranges(self) -> list[tuple[int, int, Tree]]:
        """The same for engines that verify chains only."""
        return self._merged(self.chain_choice)

    def answers(self) -> list[tuple[int, int, Tree, bool]]:
        """(first batch, last batch, tree, whether its seconds are computed), no range of both sources of times."""
        runs = _runs(self.batches, self.choice + len(self.trees) * self.computed)
        return [
            (first, last, self.trees[number % len(self.trees)], number >= len(self.trees))
            for first, last, number in runs
        ]

    def _merged(self, choice: np.ndarray) -> list[tuple[int, int, Tree]]:
        return [(first, last, self.trees[number]) for first, last, number in _runs(self.batches, choice)]


def span(first: int, last: int) -> str:
    """`3`, or `3 to 7`."""
    return f"{first}" if first == last else f"{first} to {last}"


def spans(batches: np.ndarray, among: np.ndarray) -> str:
    """The batch sizes among which `among` holds, `1, 3 to 7`."""
    return ", ".join(span(first, last) for first, last, holds in _runs(batches, among) if holds)


def _runs(batches: np.ndarray, values: np.ndarray) -> list[tuple[int, int, int]]:
    """(first batch, last batch, value) with one value in a row."""
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1), len(values)]
    return [(int(batches[a]), int(batches[b - 1]), int(values[a])) for a, b in itertools.pairwise(starts)]


def schedule(
    acceptance: Acceptance,
    latency_at: Callable[[int], Latency],
    batches: Sequence[int],
    *,
    context: int,
    max_budget: int = 64,
    max_depth: int | None = None,
    max_fanout: int | None = None,
    progress: Progress = unwatched,
) -> Schedule:
    """Plan every batch size; the trees are searched once and timed at each.

    Args:
        acceptance: rates by depth and rank.
        latency_at: batch size -> seconds of a forward of n tokens for each of its sequences.
        batches: increasing batch sizes.
        context: tokens in the KV cache of each sequence, among the contexts of every latency.
        max_budget: most drafted nodes of a sequence.
        max_depth: deepest drafted node.
        max_fanout: most children of a node.
        progress: told how far the search is.

    Raises:
        InputError: `batches` is empty, not increasing whole numbers from 1 on, or more than `MOST_BATCHES`; `context`
            is outside the measured ones, or a limit is below 1.
    """
    if len(batches) > MOST_BATCHES:
        raise InputError(
            f"batches must be at most {MOST_BATCHES:,} sizes, got {len(batches):,}: leave some out between the first "
            "and the last"
        )
    whole = np.asarray(batches).dtype.kind in "iu"
    if not len(batches) or not whole or batches[0] < 1 or (np.diff(batches) <= 0).any():
        raise InputError(f"batches must be increasing whole numbers from 1 on, got {list(batches)[:8]}")
    candidates = Candidates(acceptance, max_budget, max_depth, max_fanout, progress)
    latencies = [latency_at(int(batch)) for batch in batches]
    for latency in latencies:
        latency.context_of(context)
    speedups = np.array([candidates.speedups(latency, context) for latency in latencies])
    chains = np.unique(candidates.chains)
    best = np.array([candidates.fastest(row) for row in speedups])
    best_chain = np.array([candidates.fastest(row, chains) for row in speedups])
    used, index = np.unique([best, best_chain], return_inverse=True)
    choice, chain_choice = index.reshape(2, -1)
    trees = tuple(candidates.tree(i) for i in used)
    low, high = _intervals(trees, acceptance)
    rows, chosen = np.arange(len(batches)), [trees[i] for i in choice]
    return Schedule(
        acceptance=acceptance,
        context=context,
        batches=np.array(batches),
        trees=trees,
        choice=choice,
        chain_choice=chain_choice,
        block_efficiency=candidates.block_efficiency[used],
        block_efficiency_low=low,
        block_efficiency_high=high,
        speedup=speedups[rows, best],
        chain_speedup=speedups[rows, best_chain],
        computed=np.array([latency.is_computed for latency in latencies]),
        plain_seconds=np.array([latency.plain(context) for latency in latencies]),
        draft_seconds=np.array([at.draft_levels(tree, context) for at, tree in zip(latencies, chosen, strict=True)]),
        target_seconds=np.array([at.target(t.budget + 1, context) for at, t in zip(latencies, chosen, strict=True)]),
        overhead_seconds=np.array([at.overhead(tree) for at, tree in zip(latencies, chosen, strict=True)]),
        provenance=_provenance(acceptance, trees, latencies, np.array(batches)).noting(max_budget=max_budget),
    )


def _provenance(
    acceptance: Acceptance, trees: Sequence[Tree], latencies: Sequence[Latency], batches: np.ndarray
) -> Provenance:
    """What the latencies agree on; what only some of them take for granted, with the batch sizes of those."""
    computed = np.array([latency.is_computed for latency in latencies])
    stamp = Provenance.merged([latency.provenance for latency in latencies])
    details = {key: value for key, value in stamp.details.items() if key != "assumed"}
    if computed.any() and not computed.all():
        details["measured"] = f"at batch {spans(batches, ~computed)}, computed at batch {spans(batches, computed)}"
    said = []
    for sentence in assumed_of(acceptance, trees, latencies):
        holds = np.array([sentence in latency.provenance.assumed for latency in latencies])
        partly = holds.any() and not holds.all() and sentence not in acceptance.provenance.assumed
        said.append(f"at batch {spans(batches, holds)}: {sentence}" if partly else sentence)
    planned = f"batches {batches[0]} to {batches[-1]}" if len(batches) > 1 else f"batch {batches[0]}"
    return replace(stamp, details=details).noting(planned=planned).assuming(*said)


def _intervals(trees: Sequence[Tree], acceptance: Acceptance) -> tuple[np.ndarray | None, np.ndarray | None]:
    if acceptance.trials is None:
        return None, None
    low, high = np.array([block_efficiency_interval(tree, acceptance) for tree in trees]).T
    return low, high
