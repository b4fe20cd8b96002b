"""Choices of a tier for each batch size, and the choices near one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

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
