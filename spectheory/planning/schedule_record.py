"""`Schedule`: the fastest tree, chain or no speculation at each batch size, with what it is predicted from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.html import table_html
from spectheory.core.provenance import Provenance
from spectheory.core.ratios import clusters
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.batch_ranges import runs, span
from spectheory.planning.by_rates import ByRates
from spectheory.planning.candidates import Limits
from spectheory.planning.confidence import Confidence, require_computed
from spectheory.planning.envelope import EnvelopePlan, Envelopes
from spectheory.planning.node_reach import NodeReach, node_reach
from spectheory.planning.plan_record import answer_of
from spectheory.planning.schedule_checks import (
    check_batches,
    check_choices,
    check_index,
    check_latencies,
    check_replayed,
)
from spectheory.planning.tried_trees import TriedTrees, require_one_source
from spectheory.replay import Replayed
from spectheory.yields import RequestClasses


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Record):
    """The fastest tree, chain or no speculation for each batch size, with its predicted speed.

    The fastest is chosen among the candidates that `planning.candidates.Candidates` documents. Every prediction is
    computed from these fields.

    Attributes:
        acceptance: the acceptance rates from which the speed is predicted.
        context: number of tokens in the KV cache of each sequence.
        batches: batch sizes, increasing.
        latencies: the forward times from which the speed is predicted, one Latency for each batch size. Computed ones
            are without their inputs.
        trees: every tree that is the fastest, or the fastest chain, at some batch size.
        choice: index into `trees` of the fastest tree at each batch size.
        chain_choice: index into `trees` of the fastest chain at each batch size. No speculation counts as a chain.
        limits: the limits of the search.
        verifiers: for each tree the name of its verifier, as in `Plan`; empty if tau is predicted from rates.
        rules: for each tree the name of its draw rule; empty as `verifiers`.
        replayed: for each tree its cycles on recorded texts; empty as `verifiers`. Like the other two, an entry is None
            for the root alone.
        tried: the chains that were replayed and the trees of this schedule; None if tau is predicted from rates.
        classes: classes of contexts, as in `Plan`.
        searched: whether `choice` and `chain_choice` are the fastest of `trees`; False for the schedule of one plan,
            whose tree may be the user's own.
        confidence: how far computed times of such deployments were off; None if no roofline computed any times.

    Raises:
        InputError: the fields contradict each other.
    """

    kind: ClassVar[str] = "schedule"
    schema: ClassVar[int] = 9
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

    acceptance: Acceptance
    context: int
    batches: Int[np.ndarray, " batches"]
    latencies: tuple[Latency, ...]
    trees: tuple[Tree, ...]
    choice: Int[np.ndarray, " batches"]
    chain_choice: Int[np.ndarray, " batches"]
    limits: Limits
    provenance: Provenance
    verifiers: tuple[str | None, ...] = ()
    rules: tuple[str | None, ...] = ()
    replayed: tuple[Replayed | None, ...] = ()
    tried: TriedTrees | None = None
    searched: bool = True
    classes: RequestClasses | None = None
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        require_computed(self.confidence, self.latencies)
        check_batches(self.batches)
        check_latencies(self.latencies, self.batches, self.context)
        for name in ("choice", "chain_choice"):
            check_index(name, getattr(self, name), len(self.batches), len(self.trees))
        if not all(self.trees[i].is_chain for i in self.chain_choice):
            raise InputError("chain_choice must hold indices of chains, got the index of a tree with siblings")
        for tree in self.trees:
            self.limits.require(tree)
        check_replayed(self.trees, self.verifiers, self.rules, self.replayed, self.tried)
        require_one_source(self.tried, self.classes)
        if self.searched:
            verifiers = [self.verifier(number) for number in range(len(self.trees))]
            choices = {"choice": self.choice, "chain_choice": self.chain_choice}
            times = self.latencies, self.batches, self.context
            check_choices(choices, self.trees, self.block_efficiency, verifiers, *times)

    @property
    def rates(self) -> ByRates:
        """What the rates predict."""
        return ByRates(self.acceptance, self.classes)

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
    def block_efficiency(self) -> Float[np.ndarray, " trees"]:
        """Predicted tau of each tree in `trees`: replayed where it was, otherwise from the rates."""
        return np.array([one.tau if one else self.rates.tau(tree) for tree, one in self._replayed])

    @cached_property
    def block_efficiency_interval(self) -> Float[np.ndarray, "trees 2"] | None:
        """95% interval of each tau, over the texts of a trace or from the counts of the rates; None for one text
        and for rates without counts.
        """
        if self.tried is None and self.acceptance.trials is None:
            return None
        if any(one and clusters(one.cycles) < 2 for one in self.replayed):
            return None
        return np.array([self._interval(tree, one) for tree, one in self._replayed])

    def _interval(self, tree: Tree, replayed: Replayed | None) -> tuple[float, float]:
        """The 95% interval of the tau of a tree; that of no speculation has no width."""
        if replayed is not None:
            return replayed.tau_interval()
        return (self.rates.interval(tree) if tree.budget else None) or (1.0, 1.0)

    @property
    def block_efficiency_low(self) -> Float[np.ndarray, " trees"] | None:
        """Lower ends of `block_efficiency_interval`; None if there is no interval."""
        return None if self.block_efficiency_interval is None else self.block_efficiency_interval[:, 0]

    @property
    def block_efficiency_high(self) -> Float[np.ndarray, " trees"] | None:
        """Upper ends of `block_efficiency_interval`; None if there is no interval."""
        return None if self.block_efficiency_interval is None else self.block_efficiency_interval[:, 1]

    @cached_property
    def speedup(self) -> Float[np.ndarray, " batches"]:
        """Predicted speedup of the fastest choice over plain decoding."""
        return self.speedup_of(self.choice)

    @cached_property
    def rates_speedup(self) -> Float[np.ndarray, " batches"]:
        """What the rates predict for the same choice, to compare with what cannot be replayed."""
        tau = np.array([self.rates.tau(tree) for tree in self.trees])
        return self.speedup * (tau / self.block_efficiency)[self.choice]

    @cached_property
    def chain_speedup(self) -> Float[np.ndarray, " batches"]:
        """Predicted speedup of the fastest chain over plain decoding."""
        return self.speedup_of(self.chain_choice)

    def speedup_of(self, choice: Int[np.ndarray, " batches"]) -> Float[np.ndarray, " batches"]:
        """Predicted speedup if batch size `batches[b]` verifies `trees[choice[b]]`."""
        tau = self.block_efficiency.tolist()
        return np.array(
            [
                at.speedup(self.trees[i], tau[i], self.context, self.verifier(i))
                for at, i in zip(self.latencies, choice, strict=True)
            ]
        )

    @cached_property
    def computed(self) -> Bool[np.ndarray, " batches"]:
        """Whether the forward times are computed (True) or measured (False)."""
        return np.array([latency.computed for latency in self.latencies])

    @cached_property
    def plain_seconds(self) -> Float[np.ndarray, " batches"]:
        """Seconds of one step of plain decoding, which emits one token for each sequence."""
        return np.array([latency.plain(self.context) for latency in self.latencies])

    @property
    def draft_seconds(self) -> Float[np.ndarray, " batches"]:
        """Seconds of draft forwards in a cycle of the fastest choice."""
        return np.array([at.draft_levels(tree, self.context) for at, tree in self._chosen])

    @property
    def target_seconds(self) -> Float[np.ndarray, " batches"]:
        """Seconds of the target forward in a cycle of the fastest choice."""
        return np.array([at.target(tree.budget + 1, self.context) for at, tree in self._chosen])

    @property
    def overhead_seconds(self) -> Float[np.ndarray, " batches"]:
        """Seconds outside the forwards in a cycle of the fastest choice, with the prompts of new requests."""
        rows = zip(self._chosen, self.choice, strict=True)
        return np.array(
            [
                at.overhead(tree, self.verifier(i)) + at.prompts(self.block_efficiency[i], tree.budget > 0)
                for (at, tree), i in rows
            ]
        )

    def reach(self, row: int) -> NodeReach:
        """The predicted probability that each node of the fastest tree at batches[row] is accepted."""
        return node_reach(self.trees[self.choice[row]], self.rates, self._replayed[self.choice[row]][1])

    @property
    def _replayed(self) -> list[tuple[Tree, Replayed | None]]:
        return list(zip(self.trees, self.replayed or [None] * len(self.trees), strict=True))

    def verifier(self, number: int) -> str | None:
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
    def tokens_per_second(self) -> Float[np.ndarray, " batches"]:
        """Predicted tokens per second of all sequences of the batch together."""
        return self.batches * self.speedup / self.plain_seconds

    @property
    def speedup_interval(self) -> tuple[Float[np.ndarray, " batches"] | None, Float[np.ndarray, " batches"] | None]:
        """Lower and upper limits of the 95% interval of the speedup, from `block_efficiency_interval`.

        Forward times are taken as exact. Both limits are None if that is None.
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
        found = runs(self.batches, self.choice + count * self.computed)
        return [(first, last, self.trees[number % count], number >= count) for first, last, number in found]

    def _merged(self, choice: np.ndarray) -> list[tuple[int, int, Tree]]:
        return [(first, last, self.trees[number]) for first, last, number in runs(self.batches, choice)]
