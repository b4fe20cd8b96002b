"""What an engine can run of a schedule, and what that loses against the schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.hardware.models import ModelConfig, model, repository
from spectheory.planning.envelope import EnvelopePlan
from spectheory.planning.planner import Plan
from spectheory.planning.runnable import ChainRange, Envelope
from spectheory.planning.scheduler import Schedule, schedule_of
from spectheory.yields import block_efficiency


class PlainIsFastestError(Exception):
    """Plain decoding is the fastest that the engine can run: there is nothing to export, and nothing is wrong."""


Runs = TypeVar("Runs", bound=list[ChainRange] | Envelope, covariant=True)


@dataclass(frozen=True, eq=False)
class Fitted(Generic[Runs]):
    """What an engine can run of a schedule.

    Attributes:
        runs: chains by batch size, or one envelope for all batch sizes.
        what: a description of it in a few words.
        speedups: (B,) predicted at each planned batch size.
    """

    runs: Runs
    what: str
    speedups: np.ndarray


@dataclass(frozen=True, eq=False)
class Fitting:
    """A schedule, with the questions that exporters ask of it: what fits the limits of an engine, and what that loses.

    Attributes:
        schedule: the fastest tree and the fastest chain at each batch size.
        draft: the draft model as it was given; empty where it has no name.
        target: the configuration of the target; None where it is not known.
    """

    schedule: Schedule
    draft: str = ""
    target: ModelConfig | None = None

    @classmethod
    def of(cls, plan: Plan | Schedule, *, draft: str | None = None, target: str | ModelConfig | None = None) -> Self:
        """The fitting of a plan or a schedule.

        Args:
            plan: a plan is for the batch size of its latency alone.
            draft: the name of the draft, default the one in the provenance.
            target: a known model or the path of its config.json, default the one in the provenance.

        Raises:
            InputError: `target` is neither a known model nor the path of a configuration.
        """
        scheduled = schedule_of(plan) if isinstance(plan, Plan) else plan
        stamp = scheduled.provenance
        config = _known(stamp.target) if target is None else model(target)
        return cls(scheduled, (stamp.draft or "") if draft is None else draft, config)

    @property
    def latencies(self) -> tuple[Latency, ...]:
        """The latency of each planned batch size."""
        return self.schedule.latencies

    @property
    def longest(self) -> int:
        """Tokens of the longest chain within the limits of the schedule."""
        return self.schedule.limits.longest_chain

    @property
    def tree(self) -> Tree:
        """The fastest tree at the first batch size, which may be a chain.

        Raises:
            PlainIsFastestError: plain decoding is as fast.
        """
        tree = self.schedule.ranges()[0][2]
        if tree.budget == 0:
            raise PlainIsFastestError(f"nothing beats plain decoding at batch size {self.schedule.batches[0]}")
        return tree

    @property
    def chain(self) -> int:
        """The length of the fastest chain at the first batch size.

        Raises:
            PlainIsFastestError: plain decoding is as fast.
        """
        if self.chain_lengths[0] == 0:
            raise PlainIsFastestError(f"no chain beats plain decoding at batch size {self.schedule.batches[0]}")
        return int(self.chain_lengths[0])

    def chains(self, rule: LengthRule, allowed: str) -> Fitted[list[ChainRange]]:
        """The chains that an engine can run, for every batch size from 1 to the largest that was planned.

        A batch size between two planned ones takes the chain of the smaller.

        Args:
            rule: chooses the lengths.
            allowed: says which chains `rule` chooses among, as the end of "the fastest chains that ...".

        Raises:
            PlainIsFastestError: no chain beats plain decoding.
        """
        if not self.chain_lengths.any():
            raise PlainIsFastestError("no chain beats plain decoding at any batch size")
        lengths, batches = rule(self), self.schedule.batches
        if not lengths.any():
            raise PlainIsFastestError(f"no chain that {allowed} beats plain decoding, on average over the batch sizes")
        changes = np.flatnonzero(np.diff(lengths)) + 1
        starts = [1, *batches[changes].tolist(), int(batches[-1]) + 1]
        found = lengths[[0, *changes]].tolist()
        ranges = [ChainRange(a, b - 1, length) for (a, b), length in zip(pairwise(starts), found, strict=True)]
        if np.array_equal(lengths, self.chain_lengths):
            reached = self.schedule.chain_speedup
        else:
            reached = self.chain_speedups[np.arange(len(lengths)), lengths]
        return Fitted(ranges, f"the fastest chains that {allowed}", reached)

    def envelope(self, most_nodes: MostNodes | None = None) -> Fitted[Envelope]:
        """The envelope of highest mean share of the plan's speed over the batch sizes, within a bound on its nodes.

        Raises:
            PlainIsFastestError: plain decoding is as fast, on average.
        """
        if not self.schedule.acceptance.table[0].any():
            raise PlainIsFastestError("nothing beats plain decoding at any batch size")
        context, latencies = self.schedule.context, self.latencies
        found = self.schedule.envelopes.fastest_over(latencies, context, self.schedule.speedup, most_nodes)
        reached = np.array([found.speedup_at(latency, context) for latency in latencies])
        if self.share(reached) <= self.share(np.ones(len(reached))):
            raise PlainIsFastestError("no envelope beats plain decoding, on average over the batch sizes")
        what = "the fastest envelope" if len(latencies) == 1 else "the fastest envelope that is the same at all of them"
        return Fitted(Envelope(found.levels, found.branching, found.nodes), what, reached)

    @property
    def first_envelope(self) -> EnvelopePlan:
        """The fastest envelope at the first batch size."""
        return self.schedule.envelopes.fastest(self.latencies[0], self.schedule.context)

    def better(
        self, rule: LengthRule, allowed: str, most_nodes: MostNodes | None = None
    ) -> tuple[Fitted[list[ChainRange] | Envelope], tuple[str, ...]]:
        """The chains of `rule` or one envelope, whichever has the higher mean share of the plan's speed, with notes.

        Raises:
            PlainIsFastestError: neither beats plain decoding.
        """
        try:
            chains = self.chains(rule, allowed)
        except PlainIsFastestError:
            chains = None
        try:
            envelope = self.envelope(most_nodes)
        except PlainIsFastestError:
            chains = chains or self.chains(rule, allowed)
            return chains, self.notes(chains)
        width = envelope.runs.branching
        capped = self.capped(width)
        if chains is None:
            return envelope, (*self.notes(envelope), *capped)
        if width == 1:
            return chains, (*self.notes(chains), *capped)
        best, other = chains, envelope
        if self.share(envelope.speedups) > self.share(chains.speedups) + 1e-9:
            best, other = envelope, chains
        return best, (*self.notes(best), f"not taken, {other.what}: predicted {self.loss(other.speedups)}", *capped)

    def share(self, speedups: np.ndarray) -> float:
        """The mean over the planned batch sizes of the share of the plan's speed."""
        return float((speedups / self.schedule.speedup).mean())

    def loss(self, speedups: np.ndarray) -> str:
        """What (B,) `speedups` lose against the plan, on average and at worst, in words."""
        lost = 1 - speedups / self.schedule.speedup
        worst = int(lost.argmax())
        if lost[worst] < 5e-4:
            return "no slower than the plan"
        mean = f"{max(0.0, lost.mean()):.1%} slower on average, each planned batch size counted once, "
        over = mean if len(lost) > 1 else ""
        return f"{over}{lost[worst]:.1%} slower at batch size {self.schedule.batches[worst]} than the plan"

    def notes(self, fitted: Fitted[list[ChainRange] | Envelope]) -> tuple[str, ...]:
        """Notes: the batch sizes that `fitted` is for, and what it loses."""
        first, last = self.schedule.batches[[0, -1]]
        sizes = f"batch size {first}" if first == last else f"batch sizes {first} to {last}"
        note = f"for {sizes}, {fitted.what}: predicted {self.loss(fitted.speedups)}"
        return (note, *self._filled(fitted.runs)) if isinstance(fitted.runs, list) else (note,)

    def _filled(self, chains: list[ChainRange]) -> tuple[str, ...]:
        """Notes on the chains of batch sizes that were not planned."""
        first, differ = self.schedule.batches[0], len(chains) > 1
        below = (f"batch sizes below {first} take the chain of {first}",) * bool(first > 1)
        between = ("batch sizes between planned ones take the chain of the smaller",) * (
            self.schedule.is_sparse and differ
        )
        return below + between

    def notes_at_first(self, speedups: np.ndarray, *, alone: bool = False) -> tuple[str, ...]:
        """Notes on one tree or chain that is for the first batch size.

        Args:
            speedups: (B,) its predicted speedup at each planned batch size.
            alone: the engine drafts at no other batch size.
        """
        first, last = self.schedule.batches[[0, -1]]
        lost = 1 - speedups[0] / self.schedule.speedup[0]
        here = "no slower" if lost < 5e-4 else f"{lost:.1%} slower"
        if alone:
            return (f"for batch size 1, the only one at which it drafts: predicted {here} than the plan",)
        elsewhere = f"; run at all of {first} to {last}, {self.loss(speedups)}" if first < last else ""
        return (f"for batch size {first}: predicted {here} than the plan{elsewhere}",)

    def speedups_of(self, tree: Tree) -> np.ndarray:
        """(B,) predicted speedup of one tree at each planned batch size."""
        tau, context = block_efficiency(tree, self.schedule.acceptance), self.schedule.context
        return np.array([tau * latency.plain(context) / latency.cycle(tree, context) for latency in self.latencies])

    def capped(self, width: int) -> tuple[str, ...]:
        """A note where what an engine grows is as wide as there are recorded ranks."""
        ranks = self.schedule.acceptance.ranks
        if width < ranks:
            return ()
        return (f"{ranks} {'rank is' if ranks == 1 else 'ranks are'} recorded, which bounds the branching of trees",)

    def notes_of_tree(self, tree: Tree) -> tuple[str, ...]:
        """`notes_at_first` of a static tree, and a note where it is as wide as there are recorded ranks."""
        return (*self.notes_at_first(self.speedups_of(tree)), *self.capped(int(tree.rank.max()) + 1))

    def notes_of_chain(self, *, alone: bool = False) -> tuple[str, ...]:
        """`notes_at_first` of the fastest chain at the first batch size."""
        return self.notes_at_first(self.chain_speedups[:, self.chain], alone=alone)

    def other_draft(self, wanted: str) -> str:
        """A note on an export that names no draft, for an engine that drafts with another kind of draft."""
        draft = self.draft or "a draft without a name"
        return f"planned for {draft}, which by its name is not {wanted}: rates and times differ"

    def require_batch_1(self) -> None:
        """Check that batch size 1 is planned, for an engine that drafts for one sequence at a time.

        Raises:
            InputError: the first planned batch size is larger.
        """
        if self.schedule.batches[0] > 1:
            raise InputError(
                f"it drafts only at batch size 1, the plan starts at {self.schedule.batches[0]}: plan for batch size 1"
            )

    def require_whole_model(self) -> None:
        """Check that the draft is a whole model, for an engine that does not know EAGLE.

        Raises:
            InputError: the draft is a head, by its name.
        """
        if self.family != "model":
            raise InputError(f"the draft must be a whole model, got the EAGLE head {self.draft}")

    @cached_property
    def chain_lengths(self) -> np.ndarray:
        """(B,) length of the fastest chain at each planned batch size."""
        return np.array([self.schedule.trees[i].budget for i in self.schedule.chain_choice])

    @cached_property
    def chain_speedups(self) -> np.ndarray:
        """(B, longest + 1) predicted speedup of the chain of each length at each planned batch size."""
        chains, context = [Tree.chain(n) for n in range(self.longest + 1)], self.schedule.context
        tau = np.array([block_efficiency(chain, self.schedule.acceptance) for chain in chains])
        depth, rows = np.arange(len(chains)), []
        for at in self.latencies:
            target = np.array([at.target(n + 1, context) for n in range(len(chains))])
            cycle = target + depth * at.draft(1, context) + [at.overhead(chain) for chain in chains]
            rows.append(tau * at.plain(context) / cycle)
        return np.array(rows)

    @property
    def model(self) -> str:
        """What engines load as the draft model.

        Raises:
            InputError: the draft has no name.
        """
        if not self.draft:
            raise InputError(
                "the latency record does not name the draft model: name it with the argument draft, or with "
                "--draft on the command line"
            )
        return name_for_engines(self.draft)

    @property
    def family(self) -> str:
        """The kind of the draft, by its name: `eagle3`, `eagle` or `model`."""
        name = self.draft.lower().replace("-", "")
        return next((family for family in ("eagle3", "eagle") if family in name), "model")


LengthRule = Callable[[Fitting], np.ndarray]
"""Chooses among the chains that an engine can run: (B,) the length at each planned batch size."""
MostNodes = Callable[[int, int], int]
"""An engine's bound on the nodes of an envelope, as a function of (levels, branching)."""


def at_most(longest: int) -> LengthRule:
    """The fastest chain of at most `longest` tokens at each batch size."""
    return lambda fitting: (
        fitting.chain_lengths
        if fitting.chain_lengths.max() <= longest
        else fitting.chain_speedups[:, : longest + 1].argmax(axis=1)
    )


def one_length(longest: int) -> LengthRule:
    """The one length, at most `longest`, of highest mean share of the plan's speed over all batch sizes; 0 is none."""

    def rule(fitting: Fitting) -> np.ndarray:
        shares = fitting.chain_speedups[:, : longest + 1] / fitting.schedule.chain_speedup[:, None]
        return np.full(len(shares), shares.mean(axis=0).argmax())

    return rule


def first_is_longest(fitting: Fitting) -> np.ndarray:
    """Chain lengths for an engine that allows no chain longer than the one at the first batch size.

    Each length is tried at the first batch size, with the fastest chain up to that length at every other size. The
    lengths with the highest mean of their speedup over the plan's chain speedup win, so the first chain may be longer
    than is fastest there.
    """
    if fitting.chain_lengths[0] == fitting.chain_lengths.max():
        return fitting.chain_lengths
    tried = [fitting.chain_speedups[:, : most + 1].argmax(axis=1) for most in range(fitting.longest + 1)]
    for most, lengths in enumerate(tried):
        lengths[0] = most
    rows = np.arange(len(fitting.chain_lengths))
    return max(
        tried, key=lambda lengths: (fitting.chain_speedups[rows, lengths] / fitting.schedule.chain_speedup).mean()
    )


def name_for_engines(draft: str) -> str:
    """What an engine loads for `draft`: the repository of a shipped model, the folder of a config.json."""
    return repository(draft) or (str(Path(draft).parent) if draft.endswith(".json") else draft)


def _known(target: str | None) -> ModelConfig | None:
    """The configuration of the target that a provenance names; None where there is none to read."""
    try:
        return None if target is None else model(target)
    except InputError:
        return None
