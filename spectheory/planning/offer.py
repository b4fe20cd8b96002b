"""What was planned, for each engine to take what it can run, and what that loses against the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.engines import ChainRange, Envelope
from spectheory.hardware.latency import Latency
from spectheory.hardware.models import ModelConfig, repository
from spectheory.planning.envelope import EnvelopePlan, Envelopes
from spectheory.planning.scheduler import Schedule
from spectheory.yields import block_efficiency


class PlainIsFastestError(Exception):
    """Plain decoding is the fastest that the engine can be told: there is nothing to export, and nothing is wrong."""


Shape = TypeVar("Shape", bound=list[ChainRange] | Envelope, covariant=True)


@dataclass(frozen=True, eq=False)
class Fitted(Generic[Shape]):
    """What an engine can run of a plan.

    Attributes:
        shape: chains by batch size, or one envelope for all of them.
        what: it in a few words.
        speedups: (B,) predicted at each planned batch size.
    """

    shape: Shape
    what: str
    speedups: np.ndarray


@dataclass(frozen=True)
class Offer:
    """What was planned, for each engine to take what it can run.

    Attributes:
        schedule: the fastest tree and the fastest chain at each batch size.
        envelopes: what engines that grow trees can verify, under the same rates.
        latency_at: the latency of a batch size.
        longest: the longest chain that was planned with.
        draft: the draft model as it was given, empty where it has no name.
        target: the target by its config, None where that is not known.
    """

    schedule: Schedule
    envelopes: Envelopes
    latency_at: Callable[[int], Latency]
    longest: int
    draft: str
    target: ModelConfig | None = None

    @property
    def tree(self) -> Tree:
        """The fastest tree at the first batch size, a chain also. Raises PlainIsFastestError where there is none."""
        tree = self.schedule.ranges()[0][2]
        if tree.budget == 0:
            raise PlainIsFastestError(f"nothing beats plain decoding at batch size {self.schedule.batches[0]}")
        return tree

    @property
    def chain(self) -> int:
        """The length of the fastest chain at the first batch size. Raises PlainIsFastestError where there is none."""
        if self.planned[0] == 0:
            raise PlainIsFastestError(f"no chain beats plain decoding at batch size {self.schedule.batches[0]}")
        return int(self.planned[0])

    def chains(self, fit: Fit, engine: str) -> Fitted[list[ChainRange]]:
        """The chains of each batch size from 1 to the largest that `engine` can run.

        Between two planned batch sizes it is that of the smaller.

        Raises:
            PlainIsFastestError: there is none at any.
        """
        if not self.planned.any():
            raise PlainIsFastestError("no chain beats plain decoding at any batch size")
        lengths, batches = fit(self), self.schedule.batches
        if not lengths.any():
            raise PlainIsFastestError(f"no chain that {engine} beats plain decoding, on average over the batch sizes")
        changes = np.flatnonzero(np.diff(lengths)) + 1
        starts = [1, *batches[changes].tolist(), int(batches[-1]) + 1]
        found = lengths[[0, *changes]].tolist()
        ranges = [ChainRange(a, b - 1, length) for (a, b), length in zip(pairwise(starts), found, strict=True)]
        if np.array_equal(lengths, self.planned):
            reached = self.schedule.chain_speedup
        else:
            reached = self.speedups[np.arange(len(lengths)), lengths]
        return Fitted(ranges, f"the fastest chains that {engine}", reached)

    def envelope(self, most_nodes: MostNodes | None = None) -> Fitted[Envelope]:
        """The envelope for all planned batch sizes of highest mean share of the plan, within a bound on its nodes.

        Raises:
            PlainIsFastestError: plain decoding is as fast, on average.
        """
        if not self.schedule.acceptance.table[0].any():
            raise PlainIsFastestError("nothing beats plain decoding at any batch size")
        context, latencies = self.schedule.context, self.latencies
        found = self.envelopes.fastest_over(latencies, context, self.schedule.speedup, most_nodes)
        reached = np.array([found.speedup_at(latency, context) for latency in latencies])
        if self.share(reached) <= self.share(np.ones(len(reached))):
            raise PlainIsFastestError("no envelope beats plain decoding, on average over the batch sizes")
        what = "the fastest envelope" if len(latencies) == 1 else "the fastest envelope that is the same at all of them"
        return Fitted(Envelope(found.levels, found.branching, found.nodes), what, reached)

    @property
    def first_envelope(self) -> EnvelopePlan:
        """The fastest envelope at the first batch size."""
        return self.envelopes.fastest(self.latencies[0], self.schedule.context)

    def better(
        self, fit: Fit, engine: str, most_nodes: MostNodes | None = None
    ) -> tuple[Fitted[list[ChainRange] | Envelope], tuple[str, ...]]:
        """The chains of `fit` or one envelope, whichever has the higher mean share of the plan, and notes on both.

        Raises:
            PlainIsFastestError: neither beats plain decoding.
        """
        try:
            chains = self.chains(fit, engine)
        except PlainIsFastestError:
            chains = None
        try:
            envelope = self.envelope(most_nodes)
        except PlainIsFastestError:
            chains = chains or self.chains(fit, engine)
            return chains, self.notes(chains)
        width = envelope.shape.branching
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
        """What (B,) speedups lose against the plan, mean and worst, in words."""
        lost = 1 - speedups / self.schedule.speedup
        worst = int(lost.argmax())
        if lost[worst] < 5e-4:
            return "no slower than the plan"
        mean = f"{max(0.0, lost.mean()):.1%} slower on average, each planned batch size counted once, "
        over = mean if len(lost) > 1 else ""
        return f"{over}{lost[worst]:.1%} slower at batch size {self.schedule.batches[worst]} than the plan"

    def notes(self, fitted: Fitted[list[ChainRange] | Envelope]) -> tuple[str, ...]:
        """The batch sizes that it is for, and what it loses."""
        first, last = self.schedule.batches[[0, -1]]
        sizes = f"batch size {first}" if first == last else f"batch sizes {first} to {last}"
        note = f"for {sizes}, {fitted.what}: predicted {self.loss(fitted.speedups)}"
        return (note, *self._filled(fitted.shape)) if isinstance(fitted.shape, list) else (note,)

    def _filled(self, chains: list[ChainRange]) -> tuple[str, ...]:
        """Notes on the chains of batch sizes that were not planned."""
        first, differ = self.schedule.batches[0], len(chains) > 1
        below = (f"batch sizes below {first} take the chain of {first}",) * bool(first > 1)
        between = ("batch sizes between planned ones take the chain of the smaller",) * (
            self.schedule.is_sparse and differ
        )
        return below + between

    def notes_at_first(self, speedups: np.ndarray, *, alone: bool = False) -> tuple[str, ...]:
        """The same for one tree or chain that is for the first batch size, of (B,) speedups.

        `alone` where the engine drafts at no other.
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

    @cached_property
    def latencies(self) -> list[Latency]:
        """The latency of each planned batch size."""
        return [self.latency_at(int(batch)) for batch in self.schedule.batches]

    @cached_property
    def planned(self) -> np.ndarray:
        """(B,) length of the fastest chain at each planned batch size."""
        return np.array([self.schedule.trees[i].budget for i in self.schedule.chain_choice])

    @cached_property
    def speedups(self) -> np.ndarray:
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
        """What engines load as the draft model. Raises InputError where it has no name."""
        if not self.draft:
            raise InputError("the latency record does not name the draft model: give its name with --draft")
        return name_for_engines(self.draft)

    @property
    def family(self) -> str:
        """`eagle3`, `eagle` or `model`: what the draft is, by its name."""
        name = self.draft.lower().replace("-", "")
        return next((family for family in ("eagle3", "eagle") if family in name), "model")


Fit = Callable[[Offer], np.ndarray]
"""(B,) the fastest lengths that an engine can run, by what was planned."""
MostNodes = Callable[[int, int], int]
"""An engine's bound on the nodes of an envelope, by (levels, branching)."""


def at_most(longest: int) -> Fit:
    """The fastest chain of at most `longest` tokens at each batch size."""
    return lambda offer: (
        offer.planned if offer.planned.max() <= longest else offer.speedups[:, : longest + 1].argmax(axis=1)
    )


def one_length(longest: int) -> Fit:
    """One chain of at most `longest` tokens for all batch sizes, or none: that of highest mean share of the plan."""

    def fit(offer: Offer) -> np.ndarray:
        shares = offer.speedups[:, : longest + 1] / offer.schedule.chain_speedup[:, None]
        return np.full(len(shares), shares.mean(axis=0).argmax())

    return fit


def first_is_longest(offer: Offer) -> np.ndarray:
    """No chain longer than that of the first batch size, which may be longer than is best there.

    Of all lengths there, that of highest mean share of the plan, with the fastest chains up to it elsewhere.
    """
    if offer.planned[0] == offer.planned.max():
        return offer.planned
    tried = [offer.speedups[:, : most + 1].argmax(axis=1) for most in range(offer.longest + 1)]
    for most, lengths in enumerate(tried):
        lengths[0] = most
    rows = np.arange(len(offer.planned))
    return max(tried, key=lambda lengths: (offer.speedups[rows, lengths] / offer.schedule.chain_speedup).mean())


def name_for_engines(draft: str) -> str:
    """What an engine loads for `draft`: of a shipped model its repository, of the path of a config its folder."""
    return repository(draft) or (str(Path(draft).parent) if draft.endswith(".json") else draft)
