"""`ScheduleSpeeds`: how fast chains, trees and envelopes are at each batch size of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.planning.envelope import EnvelopePlan
from spectheory.planning.schedule_record import Schedule


@dataclass(frozen=True, eq=False)
class ScheduleSpeeds:
    """The predicted speeds of what engines can run, beside the schedule's own choice.

    Attributes:
        schedule: the fastest tree and the fastest chain at each batch size.
    """

    schedule: Schedule

    @property
    def latencies(self) -> tuple[Latency, ...]:
        """The latency of each planned batch size."""
        return self.schedule.latencies

    @property
    def longest(self) -> int:
        """Number of tokens of the longest chain within the limits of the schedule."""
        return self.schedule.limits.longest_chain

    @cached_property
    def chain_lengths(self) -> Int[np.ndarray, " batches"]:
        """Length of the fastest chain at each planned batch size."""
        return np.array([self.schedule.trees[i].budget for i in self.schedule.chain_choice])

    @cached_property
    def chain_speedups(self) -> Float[np.ndarray, "batches lengths"]:
        """Predicted speedup of the chain of each length at each planned batch size.

        Beside replayed trees it is replayed, and 0 for a length that was not, so that no other length is exported.
        """
        context, tried = self.schedule.context, self.schedule.tried
        if tried is not None:
            return np.array([tried.chain_speedups(at, context, self.longest) for at in self.latencies])
        lengths = np.arange(self.longest + 1)
        chains = [Tree.chain(length) for length in lengths.tolist()]
        tau = np.array([self.schedule.rates.tau(chain) for chain in chains])
        rows = []
        for at in self.latencies:
            draft, target = at.curves(len(chains), context)
            drafting = np.append(0, draft)[lengths] if at.drafts_at_once else lengths * draft[0]
            cycle = target + drafting + [at.overhead(chain) for chain in chains] + at.prompts(tau, lengths > 0)
            rows.append(tau * at.plain(context) / cycle)
        return np.array(rows)

    @property
    def tree_speedups(self) -> Float[np.ndarray, " batches"]:
        """Predicted speedup of `tree` at each planned batch size."""
        return self.schedule.speedup_of(np.full(len(self.latencies), self.schedule.choice[0]))

    def envelope_speedups(self, found: EnvelopePlan) -> Float[np.ndarray, " batches"]:
        """Predicted speedup of an envelope at each planned batch size.

        Its tree depends on the draft, so it is not replayed. Beside replayed trees it has the share of the plan's speed
        that it has by the rates.
        """
        reached = np.array([found.speedup_at(latency, self.schedule.context) for latency in self.latencies])
        return reached * (self.schedule.speedup / self.schedule.rates_speedup)

    @property
    def first_envelope(self) -> EnvelopePlan:
        """The fastest envelope at the first batch size."""
        return self.schedule.envelopes.fastest(self.latencies[0], self.schedule.context)

    def share(self, speedups: Float[np.ndarray, " batches"]) -> float:
        """The mean of `speedups` divided by the plan's speedups."""
        return float((speedups / self.schedule.speedup).mean())

    def loss(self, speedups: Float[np.ndarray, " batches"]) -> str:
        """How much slower than the plan `speedups` are, on average and at worst, in words."""
        lost = 1 - speedups / self.schedule.speedup
        worst = int(lost.argmax())
        if lost[worst] < 5e-4:
            return "no slower than the plan"
        mean = f"{max(0.0, lost.mean()):.1%} slower on average, each planned batch size counted once, "
        over = mean if len(lost) > 1 else ""
        return f"{over}{lost[worst]:.1%} slower at batch size {self.schedule.batches[worst]} than the plan"
