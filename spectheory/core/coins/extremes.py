"""The largest and the smallest of numbers, some without a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectheory.core.coins.exponential import Exponential
from spectheory.core.coins.races import first
from spectheory.core.coins.unknown import Unknown


def best(values: Sequence[Any] | np.ndarray, largest: bool) -> int:
    """The index of the largest or the smallest of numbers, some without a value; of equal ones the first."""
    unknown = [i for i, value in enumerate(values) if isinstance(value, Unknown)]
    leader = _leader([values[i] for i in unknown], largest)
    known = [i for i in range(len(values)) if i not in unknown]
    if any(values[i] != values[i] for i in known):
        return next(i for i in known if values[i] != values[i])
    found = -1
    for i in sorted([*known, *(unknown if leader is None else [unknown[leader]])]):
        if found < 0 or (values[i] > values[found] if largest else values[i] < values[found]):
            found = i
    return found


def _leader(values: Sequence[Any], largest: bool) -> int | None:
    """The index of the largest or smallest of random numbers by one draw; None if it takes one for each."""
    if not values or not all(values[0].is_like(value) for value in values[1:]):
        return None
    is_growing = values[0].increases if isinstance(values[0], Exponential) else values[0].scale < 0
    entries = [value.entry() for value in values]
    if is_growing == largest or len({id(clock.coin) for clock, _ in entries}) < len(entries):
        return None
    return first(entries)
