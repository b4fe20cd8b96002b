"""`Options`: the trees that a tuned schedule may run, and the controller and the record of a choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from simulate.serving import Controller, Server
from simulate.serving.tiers import Rates, Tier, tiers_of
from spectheory import Schedule, Tree
from spectheory.planning.schedule_record import Option


@dataclass(frozen=True, eq=False)
class Options:
    """The trees of a schedule, including the root alone (no speculation), as tiers of an engine.

    Attributes:
        schedule: the schedule that is tuned, with all trees that may be run.
        tiers: the tier of each of its trees.
        server: the engine.
    """

    schedule: Schedule
    tiers: tuple[Tier, ...]
    server: Server

    @classmethod
    def of(cls, schedule: Schedule, server: Server, rates: Rates | None) -> Options:
        """The trees of a schedule, no speculation, and, unless trees are replayed, the chains up to its longest one."""
        more = _with(schedule, _missing(schedule))
        return cls(more, tiers_of(more, rates), server)

    @cached_property
    def ordered(self) -> tuple[int, ...]:
        """The indices of all trees, by their number of nodes, chains first."""
        trees = self.schedule.trees
        return tuple(sorted(range(len(trees)), key=lambda i: (trees[i].budget, not trees[i].is_chain)))

    @cached_property
    def chains(self) -> tuple[int, ...]:
        """The indices of all chains, including no speculation, by their length."""
        return tuple(i for i in self.ordered if self.schedule.trees[i].is_chain)

    @property
    def nothing(self) -> Choice:
        """No speculation at every batch size."""
        return (self.chains[0],) * self.size

    @property
    def size(self) -> int:
        """The number of planned batch sizes."""
        return len(self.schedule.batches)

    def controller(self, choice: Choice, name: str) -> Controller:
        """The controller of a choice. A batch size that was not planned has the tree of the next smaller one."""
        sizes = np.arange(1, self.server.sequences + 1)
        planned = np.searchsorted(self.schedule.batches, sizes, side="right") - 1
        used, row = np.unique(np.array(choice)[planned.clip(0)], return_inverse=True)
        return Controller.by_batch([self.tiers[number] for number in used], row, sizes, name)

    def schedule_of(self, choice: Choice, chain_choice: Choice, load: str) -> Schedule:
        """The record of a choice, with its trees only."""
        used, index = np.unique([choice, chain_choice], return_inverse=True)
        rows = index.reshape(2, -1)
        kept = _only(self.schedule, used.tolist())
        stamp = self.schedule.provenance.assuming(f"the trees were chosen by simulated goodput under the load {load}")
        return replace(kept, choice=rows[0], chain_choice=rows[1], provenance=stamp)


def _missing(schedule: Schedule) -> list[Tree]:
    """No speculation, and the chains up to the longest one, if the schedule lacks them and they need no replay."""
    longest = max(tree.budget for tree in schedule.trees if tree.is_chain)
    wanted = range(longest + 1 if not schedule.is_replayed else 1)
    return [chain for length in wanted if (chain := Tree.chain(length)) not in schedule.trees]


def _with(schedule: Schedule, trees: Iterable[Tree]) -> Schedule:
    """The schedule with more trees, which nothing is replayed of."""
    return replace(schedule, options=(*schedule.options, *map(Option, trees)))


def _only(schedule: Schedule, used: list[int]) -> Schedule:
    """The schedule with the trees `used` only; its choices are replaced by the first of them."""
    chain = next(place for place, number in enumerate(used) if schedule.trees[number].is_chain)
    first = np.full(len(schedule.batches), chain)
    return replace(schedule, options=tuple(schedule.options[i] for i in used), choice=first, chain_choice=first)


Choice = tuple[int, ...]
"""The index of the tree at each planned batch size."""


def segments(choice: Choice) -> list[tuple[int, int, int]]:
    """(start, stop, tree) of each run of equal entries.

    >>> segments((4, 4, 0))
    [(0, 2, 4), (2, 3, 0)]
    """
    starts = [0, *(i for i in range(1, len(choice)) if choice[i] != choice[i - 1])]
    return [(a, b, choice[a]) for a, b in zip(starts, [*starts[1:], len(choice)], strict=True)]


def changed(choice: Choice, start: int, stop: int, tree: int) -> Choice:
    """The choice with `tree` from `start` to `stop`."""
    return (*choice[:start], *(tree,) * (stop - start), *choice[stop:])


def neighbours(choice: Choice, ordered: Sequence[int], step: int) -> Iterator[Choice]:
    """Choices that differ from `choice` by one change.

    - A segment is removed: its neighbour takes its batch sizes.
    - A threshold between two segments moves by up to `step` entries.
    - A segment takes the next smaller or larger tree of `ordered`, or its first or last `step` entries do.
    """
    found = segments(choice)
    places = {tree: place for place, tree in enumerate(ordered)}
    for (start, stop, tree), (later, end, other) in pairwise(found):
        yield changed(choice, start, stop, other)
        yield changed(choice, later, end, tree)
        yield changed(choice, later, min(later + step, end), tree)
        yield changed(choice, max(stop - step, start), stop, other)
    for start, stop, tree in found:
        place = places[tree]
        for near in (place - 1, place + 1):
            if 0 <= near < len(ordered):
                yield changed(choice, start, stop, ordered[near])
                if stop - start > step:
                    yield changed(choice, start, start + step, ordered[near])
                    yield changed(choice, stop - step, stop, ordered[near])
