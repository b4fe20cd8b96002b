"""The order of exponential numbers: comparisons of E * scale, settled by draws with given weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from spectheory.core.coins.coin import BranchError, Clock

SAME = 1e-6
"""Two weights of one exponential number may differ by this share, because of rounding."""

Entry = tuple[Clock, Fraction]
"""A number E * scale in a race."""


def _enter(entries: Sequence[Entry]) -> None:
    """Let numbers take part in one race, up to a common factor.

    Raises:
        BranchError: two of them were compared before with another quotient of their scales.
    """
    factors = [clock.scale / scale for clock, scale in entries if clock.scale is not None]
    factor = factors[0] if factors else Fraction(1)
    if any(abs(other / factor - 1) > SAME for other in factors):
        raise BranchError("random numbers that were compared are compared again, with other weights")
    for clock, scale in entries:
        clock.enter(scale * factor)


def _meet(group: Sequence[Clock]) -> int:
    """The index of the smallest of numbers that lost to the same one, or to none. The others lose to it."""
    if len(group) == 1:
        return 0
    first = group[0].coin.branch.fork([clock.weight for clock in group])
    for clock in group:
        if clock is not group[first]:
            clock.lost_to = group[first]
            group[first].weight += clock.weight
    return first


def _is_first(one: Clock, other: Clock) -> bool:
    """Whether `one` is smaller than `other`, both in the race."""
    while True:
        ours, theirs = one.path(), other.path()
        shared = sum(1 for a, b in zip(ours, theirs, strict=False) if a is b)
        if shared in (len(ours), len(theirs)):
            return shared == len(ours)
        _meet([ours[shared], theirs[shared]])


def first(entries: Sequence[Entry]) -> int:
    """The index of the smallest of different numbers E * scale."""
    _enter(entries)
    clocks = [clock for clock, _ in entries]
    leading = [clock for clock in clocks if not any(above in clocks for above in clock.path()[:-1])]
    if len({id(clock.lost_to) for clock in leading}) == 1:
        return clocks.index(leading[_meet(leading)])
    best = 0
    for i, clock in enumerate(clocks):
        if i and _is_first(clock, clocks[best]):
            best = i
    return best
