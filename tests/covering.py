"""A choice of cases in which every part is tried, for tests that leave the other cases to deep runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Case = TypeVar("Case")


def covering(cases: Sequence[Case], parts: Callable[[Case], Iterable[Hashable]]) -> list[Case]:
    """Cases, in their order, so that each part of any case is in one of them."""
    of, seen, chosen = [set(parts(case)) for case in cases], set[Hashable](), set[int]()

    def gain(number: int) -> int:
        return len(of[number] - seen)

    while gain(best := max(range(len(cases)), key=gain)):
        chosen.add(best)
        seen |= of[best]
    return [case for number, case in enumerate(cases) if number in chosen]
