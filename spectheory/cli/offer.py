"""What was planned, for each engine to take what it can run, and what that loses against the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from spectheory.engines import ChainRange, Envelope
from spectheory.latency import Latency
from spectheory.models import repository
from spectheory.schedule import Schedule
from spectheory.search.envelope import Envelopes
from spectheory.tree import Tree
from spectheory.yields import block_efficiency


class PlainIsFastestError(Exception):
    """Plain decoding is the fastest that the engine can be told: there is nothing to export, and nothing is wrong."""


@dataclass(frozen=True)
class Offer:
    """What was planned, for each engine to take what it can run.

    Attributes:
        schedule: the fastest tree and the fastest chain at each batch size.
        envelopes: what engines that grow trees can verify, under the same rates.
        latency_at: the latency of a batch size.
        longest: the longest chain that was planned with.
        draft: the draft model as it was given, empty where it has no name.
    """

    schedule: Schedule
    envelopes: Envelopes
    latency_at: Callable[[int], Latency]
    longest: int
    draft: str

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

    def chains(self, fit: Fit, engine: str) -> tuple[list[ChainRange], tuple[str, ...]]:
        """The chains of each batch size from 1 to the largest that `engine` can run, and a note of what that loses.

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
        return ranges, self._loss(lengths, engine)

    def _loss(self, lengths: np.ndarray, engine: str) -> tuple[str, ...]:
        """What `lengths` lose against the plan, in a sentence where they do."""
        if np.array_equal(lengths, self.planned):
            reached = self.schedule.chain_speedup
        else:
            reached = self.speedups[np.arange(len(lengths)), lengths]
        lost = 1 - reached / self.schedule.speedup
        worst = int(lost.argmax())
        if lost[worst] < 5e-4:
            return ()
        over = f"{lost.mean():.1%} slower on average over the batch sizes, " if len(lost) > 1 else ""
        where = f"{lost[worst]:.1%} slower at batch size {self.schedule.batches[worst]}"
        return (f"these are the fastest chains that {engine}: {over}{where} than the plan",)

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
        for batch in self.schedule.batches:
            at = self.latency_at(int(batch))
            target = np.array([at.target(n + 1, context) for n in range(len(chains))])
            cycle = target + depth * at.draft(1, context) + [at.overhead(chain) for chain in chains]
            rows.append(tau * at.plain(context) / cycle)
        return np.array(rows)

    def envelope(self, most_nodes: Callable[[int, int], int] | None = None) -> Envelope:
        """The fastest envelope at the first batch size within a bound on its nodes, by (levels, branching)."""
        first = self.latency_at(int(self.schedule.batches[0]))
        found = self.envelopes.fastest(first, self.schedule.context, most_nodes)
        return Envelope(found.levels, found.branching, found.nodes)

    def tree_envelope(self, most_nodes: Callable[[int, int], int] | None = None) -> Envelope | None:
        """For one batch size that takes a tree its envelope, None where chains are to be taken."""
        if len(self.schedule.batches) > 1 or self.schedule.answer(0) != "tree":
            return None
        found = self.envelope(most_nodes)
        return found if found.branching > 1 else None

    @property
    def model(self) -> str:
        """What engines load as the draft model. Raises ValueError where it has no name."""
        if not self.draft:
            raise ValueError("the latency record does not name the draft model: give its name with --draft")
        return name_for_engines(self.draft)

    @property
    def family(self) -> str:
        """`eagle3`, `eagle` or `model`: what the draft is, by its name."""
        name = self.draft.lower().replace("-", "")
        return next((family for family in ("eagle3", "eagle") if family in name), "model")


Fit = Callable[[Offer], np.ndarray]
"""(B,) the fastest lengths that an engine can run, by what was planned."""


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
