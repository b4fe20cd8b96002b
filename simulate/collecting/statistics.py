"""Statistics of one block: named totals and tallies, which add exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from spectheory import Tally
from spectheory.core.errors import InputError

LARGEST = 1e100
"""Largest total of a block, so that no sum or square of totals overflows."""


@dataclass(frozen=True)
class Statistics:
    """What one block has counted.

    Attributes:
        totals: numbers by name, such as {"emitted": 2814, "cycles": 1000}. Whole numbers stay exact.
        tallies: how often each value 0, 1, 2, ... occurred, by name, such as {"accepted": (320, 410, 270)}.

    Raises:
        InputError: a total is not a finite number up to 1e100, or a tally is not a list of whole numbers from 0.
    """

    totals: Mapping[str, int | float]
    tallies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        totals = {str(name): _number(name, total) for name, total in sorted(self.totals.items())}
        tallies = {str(name): _tally(name, counts) for name, counts in sorted(self.tallies.items())}
        object.__setattr__(self, "totals", totals)
        object.__setattr__(self, "tallies", tallies)

    @classmethod
    def of_tally(cls, tally: Tally) -> Self:
        """The statistics of a `Tally`: emitted tokens, cycles, and cycles by number of accepted tokens."""
        totals = {"emitted": int(tally.emitted.sum()), "cycles": int(tally.cycles.sum())}
        return cls(totals, {"accepted": tuple(tally.accepted_histogram.tolist())})

    @classmethod
    def sum(cls, parts: Iterable[Statistics]) -> Self:
        """The sum of all parts, correctly rounded at the end, so that their order does not matter.

        Raises:
            InputError: there are no parts, or their totals or tallies have different names.
        """
        listed = list(parts)
        if not listed:
            raise InputError("parts must hold at least one Statistics, got none")
        first = listed[0]
        for other in listed[1:]:
            first.require_same_names(other, "the first part", "another part")
        return cls(
            {name: _exact_sum([part.totals[name] for part in listed]) for name in first.totals},
            {name: _added([part.tallies[name] for part in listed]) for name in first.tallies},
        )

    def require_same_names(self, other: Statistics, mine: str, theirs: str) -> None:
        """Check that `other` counts the same things. The message calls the two `mine` and `theirs`."""
        for kind in ("totals", "tallies"):
            own, found = sorted(getattr(self, kind)), sorted(getattr(other, kind))
            if own != found:
                raise InputError(
                    f"{theirs} has the {kind} {found}, {mine} has {own}: return the same names from every block"
                )

    def to_dict(self) -> dict[str, Any]:
        """The statistics as plain JSON values."""
        return {"totals": dict(self.totals), "tallies": {name: list(counts) for name, counts in self.tallies.items()}}


def _number(name: str, total: Any) -> int | float:
    """`total` as a Python number."""
    value = total.item() if isinstance(total, np.generic) else total
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise InputError(f"the total {name!r} must be a finite number up to {LARGEST:g}, got {total!r:.80}")
    return value


def _tally(name: str, counts: Any) -> tuple[int, ...]:
    """`counts` as Python integers, without zeros at the end."""
    array = np.asarray(counts)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu") or (array < 0).any():
        raise InputError(f"the tally {name!r} must be a list of whole numbers of at least 0, got {counts!r:.80}")
    last = int(np.flatnonzero(array).max(initial=-1))
    return tuple(array[: last + 1].tolist())


def _exact_sum(values: list[int | float]) -> int | float:
    """The sum of integers, or the correctly rounded sum if there are floats."""
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)


def _added(tallies: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The sum of tallies of different lengths."""
    longest = max(map(len, tallies))
    return tuple(sum(column) for column in zip(*(t + (0,) * (longest - len(t)) for t in tallies), strict=True))
