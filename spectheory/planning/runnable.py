"""What an engine can run: a chain for each range of batch sizes, an envelope for a tree that it grows, or a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree


@dataclass(frozen=True, order=True)
class ChainRange:
    """A chain of `length` drafted tokens at batch sizes from `first_batch` to `last_batch`; 0 means no speculation."""

    first_batch: int
    last_batch: int
    length: int

    def __post_init__(self) -> None:
        check_whole("first_batch", self.first_batch, 1)
        check_whole("last_batch", self.last_batch, 1)
        check_whole("length", self.length, 0)
        if self.last_batch < self.first_batch:
            raise InputError(f"last_batch must be at least first_batch={self.first_batch}, got {self.last_batch}")


@dataclass(frozen=True)
class Envelope:
    """The limits within which an engine grows a tree by draft score (EAGLE-2).

    Attributes:
        levels: number of levels of drafted nodes, the root excluded.
        branching: number of children drafted for each of the `branching` best nodes of a level.
        nodes: number of drafted nodes that are kept and verified, the root excluded.

    Raises:
        InputError: a value is not a whole number of at least 1, or more `nodes` are kept than are drafted.
    """

    levels: int
    branching: int
    nodes: int

    def __post_init__(self) -> None:
        for name in ("levels", "branching", "nodes"):
            check_whole(name, getattr(self, name), 1)
        if self.nodes > self.pool:
            raise InputError(
                f"nodes must be at most branching + (levels - 1) * branching^2 = {self.pool}, the drafted nodes "
                f"for levels={self.levels} and branching={self.branching}, got {self.nodes}"
            )

    @property
    def pool(self) -> int:
        """Number of drafted nodes, of which the `nodes` best are kept."""
        return self.branching + (self.levels - 1) * self.branching**2


Runnable = Envelope | Tree | Sequence[ChainRange]
"""What an exporter accepts. Each engine refuses the kinds for which it has no format."""


def is_chain_ranges(plan: object) -> TypeGuard[Sequence[ChainRange]]:
    """Whether `plan` is a sequence of `ChainRange`."""
    return isinstance(plan, list | tuple) and all(isinstance(item, ChainRange) for item in plan)


def checked_ranges(ranges: Sequence[ChainRange]) -> list[ChainRange]:
    """`ranges` sorted by batch size, after a check that they cover all batch sizes from 1 on exactly once.

    Raises:
        InputError: there is no range, there is a gap or an overlap, or all lengths are 0.
    """
    ordered = sorted(ranges)
    if not ordered:
        raise InputError("ranges must hold at least one ChainRange, got none")
    due = 1
    for item in ordered:
        if item.first_batch != due:
            raise InputError(f"ranges must cover every batch size from 1 on once: {item} should start at {due}")
        due = item.last_batch + 1
    if all(item.length == 0 for item in ordered):
        raise InputError("ranges must have a length above 0, got only length 0: run the engine without speculation")
    return ordered


def paths(tree: Tree, engine: str) -> list[tuple[int, ...]]:
    """The paths of ranks of `tree`, sorted by (length, path), as all engines store static trees."""
    if tree.budget == 0:
        raise InputError(
            f"tree must have a drafted node for {engine}, got the root alone: run the engine without speculation"
        )
    return sorted(tree.to_paths(), key=lambda path: (len(path), path))


def check_length(length: int) -> None:
    """Check the length of the chain, for an engine that has one length for all batch sizes."""
    check_whole("length", length, 1, ": name no draft to run without speculation")
