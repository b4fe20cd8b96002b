"""`Schedule`: the fastest tree, chain or no speculation at each batch size. A schedule of one batch size is a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float, Int

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.core.ratios import clusters
from spectheory.core.record import Record
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import ByRates, Limits
from spectheory.planning.confidence import Confidence, runs, span
from spectheory.planning.envelope import Envelopes
from spectheory.replay import Replayed

MOST_BATCHES = 10_000
"""Maximum number of batch sizes of one schedule. Every candidate is timed at each of them."""
NARROWER = NormalDist().inv_cdf(0.9) / NormalDist().inv_cdf(0.975)
"""The width of an 80% interval divided by the width of a 95% interval."""
MOST_NAMED = 2
"""Maximum number of different choices that a sentence names."""


@final
@dataclass(frozen=True, eq=False)
class Option:
    """A tree that a schedule chooses from, with its verifier and its cycles on recorded texts if it was replayed.

    Attributes:
        tree: the tree; `Tree.chain(0)` means no speculation.
        verifier: the name of the verifier; None if tau is predicted from rates, which do not tell verifiers apart, or
            if nothing is drafted.
        rule: the name of the `DrawRule` by which children are drawn; None as for `verifier`.
        replayed: the cycles of this tree and verifier on recorded texts; None as for `verifier`.
    """

    tree: Tree
    verifier: str | None = None
    rule: str | None = None
    replayed: Replayed | None = None

    def __post_init__(self) -> None:
        if self.replayed is not None:
            reach = self.tree.budget + 1 if self.replayed.reach is None else len(self.replayed.reach)
            if (len(self.replayed.accepted), reach) != (self.tree.max_depth + 1, self.tree.budget + 1):
                raise InputError(f"replayed must be of {self.tree}: plan again with the trace")

    @property
    def answer(self) -> str:
        """`off` for the root alone, otherwise `chain` or `tree`."""
        if self.tree.budget == 0:
            return "off"
        return "chain" if self.tree.is_chain else "tree"

    def tau(self, rates: ByRates) -> float:
        """Predicted tokens per target call: replayed if the tree was replayed, otherwise from the rates."""
        return rates.tau(self.tree) if self.replayed is None else self.replayed.tau

    def tau_interval(self, rates: ByRates) -> tuple[float, float] | None:
        """95% interval of `tau`, over the texts or from the counts of the rates; None for one text, and without counts.

        The interval of no speculation has no width.
        """
        if self.tree.budget == 0:
            return 1.0, 1.0
        if self.replayed is not None:
            return self.replayed.tau_interval() if clusters(self.replayed.cycles) > 1 else None
        return rates.interval(self.tree)

    def reach(self, rates: ByRates) -> Float[np.ndarray, " nodes"]:
        """Predicted probability that each node is accepted."""
        if self.replayed is None:
            return rates.reach(self.tree)
        if self.replayed.reach is None:  # of a chain: the share of the cycles that keep at least 0..L tokens
            return self.replayed.accepted[::-1].cumsum()[::-1] / self.replayed.accepted.sum()
        return self.replayed.reach

    def speedup(self, rates: ByRates, latency: Latency, context: int) -> float:
        """Predicted speedup over plain decoding."""
        return latency.speedup(self.tree, self.tau(rates), context, self.verifier)


OFF = Option(Tree.chain(0))
"""No speculation."""


@dataclass(frozen=True)
class Cell:
    """The fastest choice for a range of planned contexts and batch sizes, as far as memory allows.

    Attributes:
        contexts, batches: the first and the last one.
        tree: the tree; the root alone means no speculation.
        speedups: the lowest and the highest predicted speedup.
        lost: the largest share of the speed that the schedule, which is for one context, loses here.
    """

    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    tree: Tree
    speedups: tuple[float, ...]
    lost: float


@final
@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Record):
    """The fastest tree, chain or no speculation for each batch size, with its predicted speed.

    `spectheory.plan` and `spectheory.evaluate` make a schedule of one batch size. The properties without a batch size,
    such as `tree`, `tau` and `speedup`, are for the first one. Every prediction is computed from the fields.

    Attributes:
        acceptance: the acceptance rates from which the speed is predicted.
        context: number of tokens in the KV cache of each sequence.
        batches: batch sizes, increasing.
        latencies: the forward times from which the speed is predicted, one Latency for each batch size. Computed ones
            are without their inputs.
        options: every tree that is the fastest, or the fastest chain, at some batch size; and the replayed chains, from
            which engines choose.
        choice: index into `options` of the fastest one at each batch size.
        chain_choice: index into `options` of the fastest chain at each batch size. No speculation counts as a chain.
        limits: the limits of the search.
        confidence: how far computed times of such deployments were off; None if no roofline computed any times.
        cells: the choices at all contexts of a range, by context and batch size; None if one context was planned.

    Raises:
        InputError: batch sizes, latencies and choices do not belong together, or a context was not measured.
    """

    kind: ClassVar[str] = "schedule"
    schema: ClassVar[int] = 12
    derived: ClassVar[tuple[str, ...]] = ("answer", "tau", "tau_interval", "speedup", "taus", "speedups", "computed")

    acceptance: Acceptance
    context: int
    batches: Int[np.ndarray, " batches"]
    latencies: tuple[Latency, ...]
    options: tuple[Option, ...]
    choice: Int[np.ndarray, " batches"]
    chain_choice: Int[np.ndarray, " batches"]
    limits: Limits
    provenance: Provenance
    confidence: Confidence | None = None
    cells: tuple[Cell, ...] | None = field(default=None, metadata={"optional": True})

    def __post_init__(self) -> None:
        check_batches(self.batches)
        if len(self.latencies) != len(self.batches):
            raise InputError(
                f"latencies must have one entry for each of the {len(self.batches)} batches, got {len(self.latencies)}"
            )
        for latency in self.latencies:
            latency.context_of(self.context)
        for name in ("choice", "chain_choice"):
            index = np.asarray(getattr(self, name))
            if index.shape != np.shape(self.batches) or not set(index.tolist()) <= set(range(len(self.options))):
                raise InputError(
                    f"{name} must hold, for each of the {len(self.batches)} batch sizes, the index of one of the "
                    f"{len(self.options)} options, counted from 0, got {index.tolist()!s:.60}"
                )
        if not all(self.options[i].tree.is_chain for i in self.chain_choice):
            raise InputError("chain_choice must hold indices of chains, got the index of a tree with siblings")

    @property
    def rates(self) -> ByRates:
        """What the rates predict."""
        return ByRates(self.acceptance) if self.is_replayed else ByRates.of(self.acceptance)

    @property
    def is_replayed(self) -> bool:
        """Whether tau was replayed on recorded texts."""
        return any(option.replayed for option in self.options)

    def option(self, row: int = 0) -> Option:
        """The fastest option at batches[row]."""
        return self.options[self.choice[row]]

    @property
    def tree(self) -> Tree:
        """The fastest tree at the first batch size."""
        return self.option().tree

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The tree of each option."""
        return tuple(option.tree for option in self.options)

    @property
    def verifier(self) -> str | None:
        """The name of the verifier of `tree`; None if rates predict tau, or if nothing is drafted."""
        return self.option().verifier

    @property
    def replayed(self) -> Replayed | None:
        """The cycles of `tree` on recorded texts; None if it was not replayed."""
        return self.option().replayed

    @property
    def chain(self) -> Option:
        """The fastest chain at the first batch size; no speculation if no chain is faster than plain decoding."""
        return self.options[self.chain_choice[0]]

    @property
    def latency(self) -> Latency:
        """The forward times at the first batch size."""
        return self.latencies[0]

    @property
    def answer(self) -> str:
        """`off`, `chain` or `tree` at the first batch size."""
        return self.option().answer

    @property
    def tau(self) -> float:
        """Predicted tokens per target call of `tree`."""
        return float(self.taus[self.choice[0]])

    @cached_property
    def tau_interval(self) -> tuple[float, float] | None:
        """95% interval of `tau`, see `Option.tau_interval`."""
        return self.option().tau_interval(self.rates)

    @property
    def speedup(self) -> float:
        """Predicted speedup at the first batch size: seconds per token of plain decoding divided by those of `tree`."""
        return float(self.speedups[0])

    @property
    def plain_seconds(self) -> float:
        """Predicted seconds per token of plain decoding at the first batch size."""
        return self.latency.plain(self.context)

    @property
    def cycle_seconds(self) -> float:
        """Predicted seconds of one cycle at the first batch size."""
        return sum(self.cycle_parts().values())

    @property
    def reach(self) -> Float[np.ndarray, " nodes"]:
        """Predicted probability that each node of `tree` is accepted."""
        return self.option().reach(self.rates)

    @property
    def summary(self) -> str:
        """What to run, and how fast that is predicted to be, between what and what, at the ends of the batch sizes."""
        ranges, last = self.ranges(), len(self.batches) - 1
        at = f"at batch {span(*self.batches[[0, -1]])}"
        if not any(tree.budget for _, _, tree in ranges):
            return f"Do not speculate: {at} no draft is predicted to be faster than plain decoding."
        named = [(f"{'a ' * bool(tree.budget)}{tree_in_words(tree)}", span(*ends)) for *ends, tree in ranges]
        what = ", ".join(f"{words} at batch {sizes}" for words, sizes in named)
        if len(ranges) > MOST_NAMED:
            what = f"the drafts of the table, from {named[0][0]} to {named[-1][0]}"
        by = f", with {self.verifier}" if self.verifier and not last else ""
        gains = f"{self.gain(0)} plain decoding"
        if last:
            gains += f" at batch {self.batches[0]} and {self.gain(last)} at batch {self.batches[last]}"
        return f"Run {what}{by}: predicted {gains}.{self._of_contexts}"

    @property
    def _of_contexts(self) -> str:
        """What the schedule, for one context, loses in a range of them; empty if one was planned."""
        if not self.cells:
            return ""
        ends, lost = span(self.cells[0].contexts[0], self.cells[-1].contexts[-1]), max(one.lost for one in self.cells)
        return f" This schedule, for {self.context:,} tokens of context, loses at most {lost:.1%} at {ends} tokens."

    def gain(self, row: int) -> str:
        """The speedup at batches[row] with its interval, in words."""
        interval = self.speedup_interval(row) if self.option(row).tree.budget else None
        ends = f" ({interval[0]:.2f}x to {interval[1]:.2f}x)" if interval else ""
        return f"{self.speedups[row]:.2f}x{ends}"

    @cached_property
    def taus(self) -> Float[np.ndarray, " options"]:
        """Predicted tokens per target call of each option."""
        return np.array([option.tau(self.rates) for option in self.options])

    @cached_property
    def speedups(self) -> Float[np.ndarray, " batches"]:
        """Predicted speedup of the fastest choice over plain decoding."""
        return self.speedups_of(self.choice)

    @cached_property
    def chain_speedups(self) -> Float[np.ndarray, " batches"]:
        """Predicted speedup of the fastest chain over plain decoding."""
        return self.speedups_of(self.chain_choice)

    def speedups_of(self, choice: Int[np.ndarray, " batches"]) -> Float[np.ndarray, " batches"]:
        """Predicted speedup if batch size `batches[b]` verifies `options[choice[b]]`."""
        rows = [(at, self.options[i], float(self.taus[i])) for at, i in zip(self.latencies, choice, strict=True)]
        return np.array([at.speedup(one.tree, tau, self.context, one.verifier) for at, one, tau in rows])

    @cached_property
    def _intervals(self) -> dict[int, tuple[float, float] | None]:
        return {i: self.options[i].tau_interval(self.rates) for i in set(self.choice.tolist())}

    @property
    def computed(self) -> Bool[np.ndarray, " batches"]:
        """Whether the forward times are computed (True) or measured (False)."""
        return np.array([latency.computed for latency in self.latencies])

    def speedup_interval(self, row: int = 0) -> tuple[float, float] | None:
        """80% interval of the speedup at batches[row], of the counts of the rates and of the error of computed times.

        The error of computed times is the 80% quantile of the errors of their class in the validation, and independent
        of the counts. Measured times are exact, and so are rates without counts beside computed times. None: no error
        is known, or the one of computed times is not.
        """
        counted, error = self._intervals[self.choice[row]], self.time_error(row)
        if self.option(row).tree.budget == 0:
            return 1.0, 1.0
        if error is None or (counted is None and not self.latencies[row].computed):
            return None
        speedup, tau = float(self.speedups[row]), float(self.taus[self.choice[row]])
        low, high = (NARROWER * math.log(end / tau) for end in counted or (tau, tau))
        return speedup * math.exp(-math.hypot(low, error)), speedup * math.exp(math.hypot(high, error))

    def time_error(self, row: int) -> float | None:
        """|log(predicted / measured)| of the speedups that 80% of such times have; 0 if measured, None if unknown."""
        if not self.latencies[row].computed:
            return 0.0
        errors = None if self.confidence is None else self.confidence.at(int(self.batches[row])).errors.assumed
        return None if errors is None else errors.most

    def judged(self, row: int) -> bool:
        """Whether times at batches[row] are measured, or speedups of their class and batch size were validated."""
        batch = int(self.batches[row])
        errors = None if self.confidence is None else self.confidence.at(batch).errors.speedup
        return not self.latencies[row].computed or (errors is not None and errors.judged(batch))

    def cycle_parts(self, row: int = 0) -> dict[str, float]:
        """Predicted seconds of a cycle at batches[row] by part. `overhead` includes the prompts of new requests."""
        at, option, tau = self.latencies[row], self.option(row), self.taus[self.choice[row]]
        overhead = at.overhead(option.tree, option.verifier) + at.prompts(tau, option.tree.budget > 0)
        return {
            "draft": at.draft_levels(option.tree, self.context),
            "verify": at.target(option.tree.budget + 1, self.context),
            "overhead": float(overhead),
        }

    @property
    def tokens_per_second(self) -> Float[np.ndarray, " batches"]:
        """Predicted tokens per second of all sequences of the batch together."""
        return self.batches * self.speedups / np.array([latency.plain(self.context) for latency in self.latencies])

    @cached_property
    def envelopes(self) -> Envelopes:
        """The envelopes within the limits, for engines that grow their own trees."""
        most = {"max_levels": self.limits.max_depth, "max_branching": self.limits.max_fanout}
        return Envelopes(self.acceptance, max_budget=self.limits.max_budget, **most)

    def ranges(self) -> list[tuple[int, int, Tree]]:
        """(first batch, last batch, tree) for each range of consecutive batch sizes with the same choice."""
        return [(first, last, self.options[i].tree) for first, last, i in runs(self.batches, self.choice)]

    def chain_ranges(self) -> list[tuple[int, int, Tree]]:
        """`ranges` of the fastest chains, for engines that can verify chains only."""
        return [(first, last, self.options[i].tree) for first, last, i in runs(self.batches, self.chain_choice)]


def tree_in_words(tree: Tree) -> str:
    """Number of nodes and depth of a tree in words, such as `chain of 3`."""
    if tree.budget == 0:
        return "no draft"
    return f"chain of {tree.budget}" if tree.is_chain else f"tree of {tree.budget}, {tree.max_depth} deep"


def check_batches(batches: Sequence[int] | np.ndarray, name: str = "batches") -> None:
    """Refuse batch sizes that are not increasing whole numbers from 1 on, and more than `MOST_BATCHES` of them."""
    if len(batches) > MOST_BATCHES:
        raise InputError(
            f"{name} must have at most {MOST_BATCHES:,} sizes, got {len(batches):,}: leave some out between the first "
            "and the last"
        )
    whole = np.asarray(batches).dtype.kind in "iu"
    if not len(batches) or not whole or batches[0] < 1 or (np.diff(batches) <= 0).any():
        raise InputError(f"{name} must be increasing whole numbers from 1 on, got {list(batches)[:8]}")
