"""Fitting: what an engine can run of a schedule, and how much slower it is than the schedule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy as np
from jaxtyping import Float, Int

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.files import is_there
from spectheory.core.tree import Tree
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import is_derived, known_model, lookup_named, model, repository
from spectheory.planning.confidence import span
from spectheory.planning.envelope import Envelope, PlannedEnvelope
from spectheory.planning.schedule_record import OFF, Schedule
from spectheory.verify import Greedy, name_of

BY_RATES = "compared with the plan by the rates, because trees that the draft grows are not replayed"
"""What the prediction for an envelope is beside replayed trees."""
UNNAMED = "a draft without a name"
FAMILIES = {
    "none": ("no drafter", "^none$"),
    "ngram": ("n-gram lookup", "^ngram$"),
    "suffix": ("suffix lookup", "^suffix$"),
    "p-eagle": ("a P-EAGLE head", r"(?<![a-z])p-?eagle"),
    "eagle3": ("an EAGLE-3 head", "eagle[-_]?3"),
    "eagle": ("an EAGLE head", "eagle"),
    "dflash": ("a DFlash head", "dflash"),
    "dspark": ("a DSpark head", "dspark"),
    "medusa": ("Medusa heads", "medusa"),
    "pard": ("a PARD model", "(?<![a-z])pard(?![a-z])"),
    "mtp": ("a multi-token-prediction module", "(?<![a-z])(mtp|nextn)(?![a-z])"),
    "model": ("a whole model", ""),
}
"""The families of drafts, each with its title. The first whose pattern the name of a draft contains is its family."""


class PlainIsFastestError(Exception):
    """Plain decoding is predicted to be the fastest on this engine. It is not a fault: there is nothing to export."""


@dataclass(frozen=True, order=True)
class ChainRange:
    """A chain of `length` drafted tokens at batch sizes from `first_batch` to `last_batch`; 0 means no speculation."""

    first_batch: int
    last_batch: int
    length: int

    def __post_init__(self) -> None:
        check_whole("first_batch", self.first_batch, 1)
        check_whole("last_batch", self.last_batch, self.first_batch, ", which is below first_batch")
        check_whole("length", self.length, 0)


Entry = TypeVar("Entry")
Runs = TypeVar("Runs", bound=list[ChainRange] | Envelope, covariant=True)


@dataclass(frozen=True, eq=False)
class Fitted(Generic[Runs]):
    """What an engine can run of a schedule.

    Attributes:
        runs: chains by batch size, or one envelope for all batch sizes.
        what: a description of `runs` in a few words.
        speedups: (B,) predicted speedup of `runs` at each planned batch size.
    """

    runs: Runs
    what: str
    speedups: np.ndarray


@dataclass(frozen=True, eq=False)
class Fitting:
    """A schedule, with methods for exporters: which chains and envelopes an engine can run, and how fast they are.

    Attributes:
        schedule: the fastest tree and the fastest chain at each batch size.
        draft: the draft model as it was given; empty if it has no name.
        target: the configuration of the target; None if it is unknown.
    """

    schedule: Schedule
    draft: str = ""
    target: ModelConfig | None = None

    @classmethod
    def of(cls, schedule: Schedule, *, draft: str | None = None, target: str | ModelConfig | None = None) -> Self:
        """The fitting of a schedule. `draft` and `target` (a shipped model or the path of its config.json) are names.

        None means the name in the provenance. Raises InputError if the target is unknown.
        """
        stamp = schedule.provenance
        if draft and (not draft.isprintable() or max(map(len, draft.split("/"))) > 255):
            raise InputError(f"draft must be a repository or the path of a file, got {draft!r:.60}: correct it")
        config = known_model(stamp.target) if target is None else model(target)
        return cls(schedule, (stamp.draft or "") if draft is None else draft, config)

    @cached_property
    def chain_lengths(self) -> Int[np.ndarray, " batches"]:
        """Length of the fastest chain at each planned batch size."""
        return np.array([self.schedule.options[i].tree.budget for i in self.schedule.chain_choice])

    @cached_property
    def chain_speedups(self) -> Float[np.ndarray, "batches lengths"]:
        """Predicted speedup of the chain of each length, up to the longest within the limits, at each batch size.

        A schedule of replayed trees has 0 for a length that was not replayed, so that no engine is told to run it.
        """
        plan, lengths = self.schedule, np.arange(self.schedule.limits.longest_chain + 1)
        found = np.zeros((len(plan.batches), len(lengths)))
        if plan.is_replayed:
            for chain in (OFF, *(one for one in plan.options if one.tree.is_chain and one.tree.budget < len(lengths))):
                reached = [chain.speedup(plan.rates, at, plan.context) for at in plan.latencies]
                found[:, chain.tree.budget] = np.maximum(found[:, chain.tree.budget], reached)
            return found
        tau = plan.rates.taus(Tree.chain(len(lengths) - 1), lengths)
        for row, at in enumerate(plan.latencies):
            draft, target = at.curves(len(lengths), plan.context)
            drafting = np.append(0, draft)[lengths] if at.drafts_at_once else lengths * draft[0]
            overheads = np.where(lengths > 0, at.overheads(lengths), at.plain_overhead_seconds)
            cycle = target + drafting + overheads + at.prompts(tau, lengths > 0)
            found[row] = tau * at.plain(plan.context) / cycle
        return found

    @cached_property
    def rates_speedups(self) -> Float[np.ndarray, " batches"]:
        """What the rates predict for the choice of the schedule, to compare with what cannot be replayed."""
        plan = self.schedule
        return plan.speedups * (np.array([plan.rates.tau(one.tree) for one in plan.options]) / plan.taus)[plan.choice]

    def envelope_speedups(self, found: PlannedEnvelope) -> Float[np.ndarray, " batches"]:
        """Predicted speedup of an envelope at each planned batch size.

        Its tree depends on the draft, so it is not replayed. Beside replayed trees it has the share of the plan's speed
        that it has by the rates.
        """
        return found.speedups * (self.schedule.speedups / self.rates_speedups)

    @property
    def first_envelope(self) -> PlannedEnvelope:
        """The fastest envelope at the first batch size."""
        plan = self.schedule
        return plan.envelopes.fastest(plan.latencies, plan.context, np.eye(len(plan.batches))[0])

    def share(self, speedups: Float[np.ndarray, " batches"]) -> float:
        """The mean of `speedups` divided by the plan's speedups."""
        return float((speedups / self.schedule.speedups).mean())

    def loss(self, speedups: Float[np.ndarray, " batches"]) -> str:
        """How much slower than the plan `speedups` are, on average and at worst, in words."""
        lost = 1 - speedups / self.schedule.speedups
        worst = int(lost.argmax())
        if lost[worst] < 5e-4:
            return "no slower than the plan"
        mean = f"{max(0.0, lost.mean()):.1%} slower on average, each planned batch size counted once, "
        over = mean if len(lost) > 1 else ""
        return f"{over}{lost[worst]:.1%} slower at batch size {self.schedule.batches[worst]} than the plan"

    @property
    def tree(self) -> Tree:
        """The fastest tree at the first batch size; it may be a chain. Raises PlainIsFastestError if it is none."""
        if self.schedule.tree.budget == 0:
            raise PlainIsFastestError(f"nothing beats plain decoding at batch size {self.schedule.batches[0]}")
        return self.schedule.tree

    @property
    def chain(self) -> int:
        """The length of the fastest chain at the first batch size. Raises PlainIsFastestError if it is 0."""
        if self.chain_lengths[0] == 0:
            raise PlainIsFastestError(f"no chain beats plain decoding at batch size {self.schedule.batches[0]}")
        return int(self.chain_lengths[0])

    def chains(self, rule: LengthRule, allowed: str) -> Fitted[list[ChainRange]]:
        """The chains that an engine can run, for every batch size from 1 to the largest planned one.

        A batch size between two planned ones uses the chain for the smaller one. `rule` chooses the length at each
        planned batch size; `allowed` says from which chains, in words that complete "the fastest chains that ...".
        Raises PlainIsFastestError if no chain beats plain decoding.
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
        reached = self.chain_speedups[np.arange(len(lengths)), lengths]
        return Fitted(ranges, f"the fastest chains that {allowed}", reached)

    def envelope(self, most_nodes: MostNodes | None = None) -> Fitted[Envelope]:
        """The envelope of highest mean share of the plan's speed over the batch sizes.

        `most_nodes` is the engine's own limit on the number of nodes; None means no limit. Raises PlainIsFastestError
        if no envelope is faster than plain decoding, on average over the batch sizes.
        """
        plan = self.schedule
        if not plan.acceptance.table[0].any():
            raise PlainIsFastestError("nothing beats plain decoding at any batch size")
        found = plan.envelopes.fastest(plan.latencies, plan.context, 1 / self.rates_speedups, most_nodes)
        reached = self.envelope_speedups(found)
        if self.share(reached) <= self.share(np.ones(len(reached))):
            raise PlainIsFastestError("no envelope beats plain decoding, on average over the batch sizes")
        what = "the fastest envelope" if len(reached) == 1 else "the fastest envelope that is the same at all of them"
        return Fitted(found.envelope, f"{what}, {BY_RATES}" if plan.is_replayed else what, reached)

    def better(
        self, rule: LengthRule, allowed: str, most_nodes: MostNodes | None = None, *, trees: bool = True
    ) -> tuple[Fitted[list[ChainRange] | Envelope], tuple[str, ...]]:
        """The chains of `rule` or one envelope, whichever has the higher mean share of the plan's speed, with notes.

        Arguments are the same as for `chains` and `envelope`. Chains are taken if the shares are equal, or if the
        envelope is a chain, or without `trees`. Raises PlainIsFastestError if neither is faster than plain decoding.
        """
        if not trees:
            return (chains := self.chains(rule, allowed)), self.notes(chains)
        found: list[Fitted[list[ChainRange] | Envelope]] = []
        with suppress(PlainIsFastestError):
            found.append(self.chains(rule, allowed))
        with suppress(PlainIsFastestError):
            found.append(self.envelope(most_nodes))
        if not found:
            raise PlainIsFastestError("neither chains nor an envelope beat plain decoding at any batch size")
        if isinstance(grown := found[-1].runs, Envelope) and grown.branching == 1:
            found = found[:1]
        best, *others = sorted(found, key=lambda one: -self.share(one.speedups) - 1e-9 * isinstance(one.runs, list))
        rejected = [f"not taken, {other.what}: predicted {self.loss(other.speedups)}" for other in others]
        return best, (*self.notes(best), *rejected)

    def notes(self, fitted: Fitted[list[ChainRange] | Envelope]) -> tuple[str, ...]:
        """Notes on how much slower than the plan `fitted` is, and what runs at batch sizes that were not planned."""
        batches = self.schedule.batches
        sizes = f"batch size{'s' if len(batches) > 1 else ''} {span(batches[0], batches[-1])}"
        notes = [f"for {sizes}, {fitted.what}: predicted {self.loss(fitted.speedups)}"]
        if not isinstance(fitted.runs, list):
            return tuple(notes)
        if batches[0] > 1:
            notes.append(f"batch sizes below {batches[0]} use the chain for batch size {batches[0]}")
        if len(fitted.runs) > 1 and (np.diff(batches) > 1).any():
            notes[0] += "; batch sizes between planned ones use the chain for the smaller one"
        return (*notes, *self._replayed_with(self.schedule.chain_choice))

    def notes_at_first(self, found: Tree | PlannedEnvelope | int, *, alone: bool = False) -> tuple[str, ...]:
        """Notes on the tree, the envelope or the length of a chain that was chosen for the first batch size.

        `alone` is whether the engine can draft at the first batch size only.
        """
        plan, (first, last) = self.schedule, self.schedule.batches[[0, -1]]
        if isinstance(found, PlannedEnvelope):
            speedups, others = self.envelope_speedups(found), (BY_RATES,) * plan.is_replayed
        elif isinstance(found, Tree):
            speedups = plan.speedups_of(np.full(len(plan.batches), plan.choice[0]))
            others = self._replayed_with(plan.choice[:1])
        else:
            speedups, others = self.chain_speedups[:, found], self._replayed_with(plan.chain_choice[:1])
        lost = 1 - speedups[0] / plan.speedup
        here = "no slower" if lost < 5e-4 else f"{lost:.1%} slower"
        elsewhere = f"; at batch sizes {first} to {last}: {self.loss(speedups)}" if first < last and not alone else ""
        return (f"for batch size {first}: predicted {here} than the plan{elsewhere}", *others)

    def _replayed_with(self, choice: np.ndarray) -> tuple[str, ...]:
        """A note on the verifiers with which tau of the chosen trees was replayed; nothing if the rates predict it."""
        names = {name for i in choice if (name := self.schedule.options[i].verifier) is not None}
        if not names - {name_of(Greedy())}:
            return ()
        return (f"tau is that of {' and '.join(sorted(names))}, and differs if the engine verifies by another rule",)

    def require_batch_1(self) -> None:
        """Raise InputError unless batch size 1 is planned, for an engine that drafts for one sequence at a time."""
        if (first := self.schedule.batches[0]) > 1:
            raise InputError(f"it drafts only at batch size 1, the plan starts at {first}: plan for batch size 1")

    def of_family(self, known: Mapping[str, Entry]) -> Entry:
        """The entry for the family of the draft. Raises InputError if the engine cannot run drafts of this family."""
        if self.family in known:
            return known[self.family]
        allowed = [FAMILIES[family][0] for family in known]
        joined = " or ".join([", ".join(allowed[:-1]), allowed[-1]][len(allowed) == 1 :])
        got = f"{self.draft or UNNAMED}, by its name {FAMILIES[self.family][0]}"
        raise InputError(f"the draft must be {joined}, got {got}: plan with another draft")

    @property
    def model(self) -> str:
        """The repository of a shipped model, the folder of a config.json, or the name. InputError if empty."""
        if not self.draft:
            raise InputError("the latency record does not name the draft model: name it with the argument draft")
        return repository(self.draft) or (str(Path(self.draft).parent) if self.draft.endswith(".json") else self.draft)

    @property
    def loaded(self) -> str | None:
        """What an engine loads for the draft: nothing for lookup, and for a module in the target's checkpoint."""
        inside = self.family in ("ngram", "suffix") or (self.family == "mtp" and "/" not in self.draft)
        return None if inside else self.model

    @property
    def family(self) -> str:
        """The family of the draft, a key of `FAMILIES`, derived from its name."""
        lookup, name = lookup_named(self.draft), self.draft.lower()
        return lookup or next(family for family, (_, pattern) in FAMILIES.items() if re.search(pattern, name))

    def notes_of_draft(self, written: str) -> tuple[str, ...]:
        """A note if the settings `written` for an engine name a draft that has no checkpoint of this name."""
        loadable = repository(self.draft) or is_there(self.draft)
        if not is_derived(self.draft) or loadable or self.draft not in written:
            return ()
        title = FAMILIES[self.family][0]
        return (f"{self.draft} is not a checkpoint: write the folder or repository of {title} for this target instead",)


LengthRule = Callable[[Fitting], Int[np.ndarray, " batches"]]
"""A function that returns the length of the chain at each planned batch size."""
MostNodes = Callable[[int, int], int]
"""A function of (levels, branching) that returns the maximum number of nodes that an engine verifies."""


def at_most(longest: int) -> LengthRule:
    """A rule for an engine that runs chains of up to `longest` tokens: the fastest of them at each batch size."""
    return lambda fitting: fitting.chain_speedups[:, : longest + 1].argmax(axis=1)


def one_length(fitting: Fitting) -> np.ndarray:
    """The rule for an engine that runs one length at all batch sizes: the one of highest mean share of the speed."""
    shares = fitting.chain_speedups / fitting.schedule.chain_speedups[:, None]
    return np.full(len(shares), shares.mean(axis=0).argmax())


def one_length_then_off(fitting: Fitting) -> np.ndarray:
    """The same for an engine that runs one length up to a batch size, and does not speculate above it."""
    shares = fitting.chain_speedups / fitting.schedule.chain_speedups[:, None]
    gained = np.vstack([np.zeros(shares.shape[1]), np.cumsum(shares - shares[:, :1], axis=0)])
    until, length = np.unravel_index(gained.argmax(), gained.shape)
    return np.where(np.arange(len(shares)) < until, length, 0)


def first_is_longest(fitting: Fitting) -> np.ndarray:
    """The rule for an engine that runs no chain longer than the chain at the first batch size.

    The fastest chain is taken at every other batch size, and the longest of these at the first one.
    """
    lengths = fitting.chain_lengths.copy()
    lengths[0] = lengths.max()
    return lengths


def checked_ranges(ranges: Sequence[ChainRange]) -> list[ChainRange]:
    """`ranges` sorted by batch size. Raises InputError unless they cover all from 1 on once, with a length above 0."""
    ordered, due = sorted(ranges), 1
    for item in ordered:
        if item.first_batch != due:
            raise InputError(f"ranges must cover every batch size from 1 on once: {item} should start at {due}")
        due = item.last_batch + 1
    if all(item.length == 0 for item in ordered):
        raise InputError("ranges must have a length above 0, got none: run the engine without speculation")
    return ordered
