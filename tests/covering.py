"""A choice of cases in which every part is tried, for tests that leave the other cases to deep runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Case = TypeVar("Case")


def covering(cases: Sequence[Case], parts: Callable[[Case], Iterable[Hashable]], times: int = 1) -> list[Case]:
    """Cases, in their order, so that each part of any case is in so many of them, or in all that have it."""
    of, seen, chosen = [set(parts(case)) for case in cases], Counter[Hashable](), set[int]()

    def gain(number: int) -> int:
        return 0 if number in chosen else sum(seen[part] < times for part in of[number])

    while gain(best := max(range(len(cases)), key=gain)):
        chosen.add(best)
        seen.update(of[best])
    return [case for number, case in enumerate(cases) if number in chosen]
