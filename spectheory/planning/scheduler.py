"""`Schedule`: the fastest tree, chain or no speculation at each batch size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.html import table_html
from spectheory.core.provenance import Provenance
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import Candidates, Limits, Progress, ignore_progress
from spectheory.planning.envelope import EnvelopePlan, Envelopes
from spectheory.planning.planner import Plan, answer_of, assumptions_of, require_verified
from spectheory.planning.replayed_choice import ReplayedChoice
from spectheory.replay import Replayed, Replays
from spectheory.verify import name_of
from spectheory.yields import block_efficiency, block_efficiency_interval

MOST_BATCHES = 10_000
"""Maximum number of batch sizes of one schedule. Every candidate is timed at each of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Record):
    """The fastest tree, chain or no speculation for each batch size, with its predicted speed.

    The fastest is chosen among the candidates that `planning.candidates.Candidates` documents. Every prediction is
    computed from these fields.

    Attributes:
        acceptance: the acceptance rates from which the speed is predicted.
        context: number of tokens in the KV cache of each sequence.
        batches: (B,) batch sizes, increasing.
        latencies: the forward times from which the speed is predicted, one Latency for each batch size.
        trees: every tree that is the fastest, or the fastest chain, at some batch size.
        choice: (B,) index into `trees` of the fastest tree at each batch size.
        chain_choice: (B,) index into `trees` of the fastest chain at each batch size. No speculation counts as a chain.
        limits: the limits of the search.
        verifiers: for each tree the name of its verifier, as in `Plan`; empty if tau is predicted from rates.
        rules: for each tree the name of its draw rule; empty as `verifiers`.
        replayed: for each tree its cycles on recorded texts; empty as `verifiers`. Like the other two, an entry is None
            for the root alone.
    """

    kind: ClassVar[str] = "schedule"
    schema: ClassVar[int] = 4
    derived: ClassVar[tuple[str, ...]] = (
        "block_efficiency",
        "block_efficiency_low",
        "block_efficiency_high",
        "speedup",
        "chain_speedup",
        "computed",
        "plain_seconds",
        "draft_seconds",
        "target_seconds",
        "overhead_seconds",
    )
    repair: ClassVar[str] = "make the schedule again with `spectheory schedule` or `spectheory.schedule`"

    acceptance: Acceptance
    context: int
    batches: np.ndarray
    latencies: tuple[Latency, ...]
    trees: tuple[Tree, ...]
    choice: np.ndarray
    chain_choice: np.ndarray
    limits: Limits
    provenance: Provenance
    verifiers: tuple[str | None, ...] = ()
    rules: tuple[str | None, ...] = ()
    replayed: tuple[Replayed | None, ...] = ()

    def __post_init__(self) -> None:
        check_batches(self.batches)
        named = self.verifiers, self.rules, self.replayed
        if any(named):
            if {len(entries) for entries in named} != {len(self.trees)}:
                raise InputError(
                    f"verifiers, rules and replayed must have an entry for each of the {len(self.trees)} trees, got "
                    f"{', '.join(str(len(entries)) for entries in named)}"
                )
            for tree, verified in zip(self.trees, zip(*named, strict=True), strict=True):
                require_verified(tree, *verified)
        if len(self.latencies) != len(self.batches):
            raise InputError(
                f"latencies must have one entry for each of the {len(self.batches)} batches, got {len(self.latencies)}"
            )
        for latency in self.latencies:
            latency.context_of(self.context)
        for name in ("choice", "chain_choice"):
            index = getattr(self, name)
            within = np.shape(index) == (len(self.batches),) and index.dtype.kind in "iu" and len(self.trees)
            if not within or index.min() < 0 or index.max() >= len(self.trees):
                raise InputError(
                    f"{name} must hold, for each of the {len(self.batches)} batch sizes, the index of one of the "
                    f"{len(self.trees)} trees, counted from 0, got {np.asarray(index).tolist()!s:.60}"
                )
        for tree in self.trees:
            self.limits.require(tree)
        if not all(self.trees[i].is_chain for i in self.chain_choice):
            raise InputError("chain_choice must hold indices of chains, got the index of a tree with siblings")

    @property
    def summary(self) -> str:
        """The answer at the smallest and at the largest batch size, and the break-even."""
        rows = sorted({0, len(self.batches) - 1})
        ends = [f"batch {self.batches[row]}: {self.answer(row)} at {self.speedup[row]:.2f}x" for row in rows]
        pays = "speculation pays at the last batch size"
        return "; ".join([*ends, pays if self.break_even is None else f"break-even at batch {self.break_even}"])

    def _repr_html_(self) -> str:
        rows = [
            (
                span(first, last),
                "nothing" if tree.budget == 0 else f"{answer_of(tree)} of {tree.budget}, {tree.max_depth} deep",
                f"{self.block_efficiency[self.choice[at]]:.2f}",
                f"{self.speedup[at]:.2f}x",
            )
            for first, last, tree in self.ranges()
            for at in np.flatnonzero(self.batches == first)
        ]
        title = f"Fastest at each batch size, {self.context:,} tokens of context, predicted"
        return table_html(title, ("batch", "verify", "tau", "speedup"), rows)

    def answer(self, row: int) -> str:
        """`off`, `chain` or `tree` at batches[row]."""
        return answer_of(self.trees[self.choice[row]])

    @cached_property
    def block_efficiency(self) -> np.ndarray:
        """(T,) predicted tau of each tree in `trees`: replayed where it was, otherwise from the rates."""
        return np.array([one.tau if one else block_efficiency(tree, self.acceptance) for tree, one in self._replayed])

    @cached_property
    def block_efficiency_interval(self) -> np.ndarray | None:
        """(T, 2) 95% interval of each tau, from the counts of the rates; None for rates without counts."""
        if self.acceptance.trials is None or any(one and (one.cycles > 0).sum() < 2 for one in self.replayed):
            return None
        return np.array(
            [
                one.tau_interval() if one else block_efficiency_interval(tree, self.acceptance)
                for tree, one in self._replayed
            ]
        )

    @property
    def block_efficiency_low(self) -> np.ndarray | None:
        """(T,) lower ends of `block_efficiency_interval`, None if that is None."""
        return None if self.block_efficiency_interval is None else self.block_efficiency_interval[:, 0]

    @property
    def block_efficiency_high(self) -> np.ndarray | None:
        """(T,) upper ends of `block_efficiency_interval`, None if that is None."""
        return None if self.block_efficiency_interval is None else self.block_efficiency_interval[:, 1]

    @property
    def speedup(self) -> np.ndarray:
        """(B,) predicted speedup of the fastest choice over plain decoding."""
        return self._speedup(self.choice)

    @property
    def chain_speedup(self) -> np.ndarray:
        """(B,) predicted speedup of the fastest chain over plain decoding."""
        return self._speedup(self.chain_choice)

    def _speedup(self, choice: np.ndarray) -> np.ndarray:
        """(B,) predicted speedup if batch size `batches[b]` verifies `trees[choice[b]]`."""
        cycle = [
            at.cycle(self.trees[i], self.context, self._verifier(i))
            for at, i in zip(self.latencies, choice, strict=True)
        ]
        return self.block_efficiency[choice] * self.plain_seconds / cycle

    @cached_property
    def computed(self) -> np.ndarray:
        """(B,) whether the forward times are computed (True) or measured (False)."""
        return np.array([latency.computed for latency in self.latencies])

    @cached_property
    def plain_seconds(self) -> np.ndarray:
        """(B,) seconds of one step of plain decoding, which emits one token for each sequence."""
        return np.array([latency.plain(self.context) for latency in self.latencies])

    @property
    def draft_seconds(self) -> np.ndarray:
        """(B,) seconds of draft forwards in a cycle of the fastest choice."""
        return np.array([at.draft_levels(tree, self.context) for at, tree in self._chosen])

    @property
    def target_seconds(self) -> np.ndarray:
        """(B,) seconds of the target forward in a cycle of the fastest choice."""
        return np.array([at.target(tree.budget + 1, self.context) for at, tree in self._chosen])

    @property
    def overhead_seconds(self) -> np.ndarray:
        """(B,) seconds outside the forwards in a cycle of the fastest choice."""
        verifiers = map(self._verifier, self.choice)
        return np.array([at.overhead(tree, how) for (at, tree), how in zip(self._chosen, verifiers, strict=True)])

    @property
    def _replayed(self) -> list[tuple[Tree, Replayed | None]]:
        return list(zip(self.trees, self.replayed or [None] * len(self.trees), strict=True))

    def _verifier(self, number: int) -> str | None:
        """The name of the verifier of a tree, None if there is none."""
        return self.verifiers[number] if self.verifiers else None

    @property
    def _chosen(self) -> list[tuple[Latency, Tree]]:
        return [(at, self.trees[i]) for at, i in zip(self.latencies, self.choice, strict=True)]

    @cached_property
    def envelopes(self) -> Envelopes:
        """The envelopes within the limits, for engines that grow their own trees."""
        most = {"max_levels": self.limits.max_depth, "max_branching": self.limits.max_fanout}
        return Envelopes(self.acceptance, max_budget=self.limits.max_budget, **most)

    @cached_property
    def fastest_envelopes(self) -> list[EnvelopePlan | None]:
        """For each range of `answers`, the fastest envelope at its first batch size; None if nothing is drafted."""
        found = []
        for first, _, tree, _ in self.answers():
            at = self.latencies[int(np.searchsorted(self.batches, first))]
            found.append(self.envelopes.fastest(at, self.context) if tree.budget else None)
        return found

    @property
    def tokens_per_second(self) -> np.ndarray:
        """(B,) predicted tokens per second of all sequences of the batch together."""
        return self.batches * self.speedup / self.plain_seconds

    @property
    def speedup_interval(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Lower and upper limits (B,) of the 95% interval of the speedup, from the counts of the rates.

        Forward times are taken as exact. Both limits are None for rates without counts.
        """
        if self.block_efficiency_interval is None:
            return None, None
        low, high = self.block_efficiency_interval[self.choice].T
        per_tau = self.speedup / self.block_efficiency[self.choice]
        return per_tau * low, per_tau * high

    @property
    def is_sparse(self) -> bool:
        """Whether some batch sizes between the first and the last are missing."""
        return bool((np.diff(self.batches) > 1).any())

    @property
    def break_even(self) -> int | None:
        """The planned batch size from which on speculation is never faster than plain decoding.

        It is None if speculation is faster at the last batch size. Below the break-even speculation is usually faster,
        but not always: with a mixture of experts and a small batch, a few more tokens load many more experts. `ranges`
        has the choice at every batch size.
        """
        pays = np.flatnonzero([self.trees[i].budget for i in self.choice])
        start = int(pays[-1]) + 1 if len(pays) else 0
        return int(self.batches[start]) if start < len(self.batches) else None

    def ranges(self) -> list[tuple[int, int, Tree]]:
        """(first batch, last batch, tree) for each range of consecutive batch sizes with the same choice."""
        return self._merged(self.choice)

    def chain_ranges(self) -> list[tuple[int, int, Tree]]:
        """`ranges` of the fastest chains, for engines that can verify chains only."""
        return self._merged(self.chain_choice)

    def answers(self) -> list[tuple[int, int, Tree, bool]]:
        """(first batch, last batch, tree, whether the times are computed) for each range of batch sizes.

        A range has one choice, and either only computed or only measured times.
        """
        count = len(self.trees)
        runs = _runs(self.batches, self.choice + count * self.computed)
        return [(first, last, self.trees[number % count], number >= count) for first, last, number in runs]

    def _merged(self, choice: np.ndarray) -> list[tuple[int, int, Tree]]:
        return [(first, last, self.trees[number]) for first, last, number in _runs(self.batches, choice)]


def span(first: int, last: int) -> str:
    """A range of batch sizes in words, such as `3` or `3 to 7`."""
    return f"{first}" if first == last else f"{first} to {last}"


def spans(batches: np.ndarray, among: np.ndarray) -> str:
    """The batch sizes at which `among` is True, such as `1, 3 to 7`."""
    return ", ".join(span(first, last) for first, last, holds in _runs(batches, among) if holds)


def _runs(batches: np.ndarray, values: np.ndarray) -> list[tuple[int, int, int]]:
    """(first batch, last batch, value) for each range of consecutive batches with equal values."""
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
    replays: Replays | None = None,
    progress: Progress = ignore_progress,
) -> Schedule:
    """Find the fastest choice at every batch size. Trees are searched once and timed at each batch size.

    Args:
        acceptance: rates by depth and rank.
        latency_at: function from a batch size to its forward times.
        batches: increasing batch sizes.
        context: number of tokens in the KV cache of each sequence, within the measured contexts of every latency.
        max_budget: maximum number of drafted nodes of a sequence.
        max_depth: depth of the deepest drafted node; None sets no limit.
        max_fanout: maximum number of children of a node; None sets no limit.
        replays: texts of a trace, on which the candidates are replayed with each verifier; None predicts tau from the
            rates.
        progress: callback to which the search reports its progress.

    Raises:
        InputError: `batches` is empty, not increasing whole numbers from 1 on, or more than `MOST_BATCHES`; `context`
            is outside the measured contexts, or a limit is below 1.
    """
    check_batches(batches)
    limits = Limits(max_budget, max_depth, max_fanout)
    candidates = Candidates(acceptance, limits, progress)
    latencies = tuple(latency_at(int(batch)) for batch in batches)
    if replays is not None:
        return _replayed_schedule(ReplayedChoice(replays, candidates, progress), latencies, np.array(batches), context)
    speedups = [candidates.speedups(latency, context) for latency in latencies]
    chains = np.unique(candidates.chains)
    best = [candidates.fastest(row) for row in speedups]
    best_chain = [candidates.fastest(row, chains) for row in speedups]
    used, index = np.unique([best, best_chain], return_inverse=True)
    choice, chain_choice = index.reshape(2, -1)
    trees = tuple(candidates.tree(i) for i in used)
    stamp = _provenance(acceptance, trees, latencies, np.array(batches), replayed=False)
    return Schedule(acceptance, context, np.array(batches), latencies, trees, choice, chain_choice, limits, stamp)


def _replayed_schedule(
    choices: ReplayedChoice, latencies: tuple[Latency, ...], batches: np.ndarray, context: int
) -> Schedule:
    """The schedule whose trees and verifiers are chosen by replay."""
    acceptance, limits = choices.candidates.acceptance, choices.candidates.limits
    pairs = [choices.fastest_candidates(latency, context) for latency in latencies]
    used = list(dict.fromkeys(option for pair in pairs for option in pair))
    choice, chain_choice = np.array([[used.index(option) for option in pair] for pair in pairs]).T
    trees = tuple(option.tree if option else Tree.chain(0) for option in used)
    return Schedule(
        acceptance=acceptance,
        context=context,
        batches=batches,
        latencies=latencies,
        trees=trees,
        choice=choice,
        chain_choice=chain_choice,
        limits=limits,
        provenance=_provenance(acceptance, trees, latencies, batches, replayed=True),
        verifiers=tuple(option and name_of(option.verifier) for option in used),
        rules=tuple(option and option.rule.name for option in used),
        replayed=tuple(option and option.replayed for option in used),
    )


def schedule_of(plan: Plan) -> Schedule:
    """A plan as a schedule of one batch size (the batch size of its latency), with its tree and its fastest chain."""
    fastest = plan.tree if plan.tree.is_chain else Tree.chain(int(plan.by_budget.chain_speedup.argmax()))
    trees = tuple(dict.fromkeys((plan.tree, fastest)))
    return Schedule(
        acceptance=plan.acceptance,
        context=plan.context,
        batches=np.array([plan.latency.batch]),
        latencies=(plan.latency,),
        trees=trees,
        choice=np.array([0]),
        chain_choice=np.array([trees.index(fastest)]),
        limits=plan.limits,
        provenance=plan.provenance,
    )


def check_batches(batches: Sequence[int] | np.ndarray) -> None:
    """Refuse batch sizes that are not increasing whole numbers from 1 on, and more than `MOST_BATCHES` of them."""
    if len(batches) > MOST_BATCHES:
        raise InputError(
            f"batches must have at most {MOST_BATCHES:,} sizes, got {len(batches):,}: leave some out between the first "
            "and the last"
        )
    whole = np.asarray(batches).dtype.kind in "iu"
    if not len(batches) or not whole or batches[0] < 1 or (np.diff(batches) <= 0).any():
        raise InputError(f"batches must be increasing whole numbers from 1 on, got {list(batches)[:8]}")


def _provenance(
    acceptance: Acceptance, trees: Sequence[Tree], latencies: Sequence[Latency], batches: np.ndarray, *, replayed: bool
) -> Provenance:
    """The merged provenance of the latencies. Assumptions that hold at some batch sizes only name these sizes."""
    stamp = Provenance.merged([latency.provenance for latency in latencies])
    said = []
    for sentence in assumptions_of(acceptance, trees, latencies, replayed=replayed):
        holds = np.array([sentence in latency.provenance.assumptions for latency in latencies])
        partly = holds.any() and not holds.all() and sentence not in acceptance.provenance.assumptions
        said.append(f"at batch {spans(batches, holds)}: {sentence}" if partly else sentence)
    return stamp.replace(assumptions=tuple(dict.fromkeys(said)))
