"""The steps of a check, which are counted and bounded: a check that does not end fails after the same step anywhere.

A step is one case that `every`, `smallest` or a formula looks at, one run of a program of `plays`, or one turn of a
loop that has no bound of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
MOST = {1: 500_000, 2: 50_000_000}
"""The steps that a check and its second check may take together, by effort."""


@dataclass
class Steps:
    """The steps taken so far, and the most that may be taken."""

    most: int
    taken: int = 0


_STEPS: ContextVar[Steps | None] = ContextVar("steps", default=None)


def step() -> None:
    """Count a step.

    Raises:
        ArithmeticError: the check has taken all the steps it may take.
    """
    steps = _STEPS.get()
    if steps is None:
        return
    steps.taken += 1
    if steps.taken > steps.most:
        raise ArithmeticError(f"the check does not end within {steps.most:,} steps")


def counted(cases: Iterable[T]) -> Iterator[T]:
    """The same cases; each counts as one step."""
    for case in cases:
        step()
        yield case


@contextmanager
def at_most(most: int) -> Iterator[Steps]:
    """Within this context no more than `most` steps may be taken."""
    steps = Steps(most)
    token = _STEPS.set(steps)
    try:
        yield steps
    finally:
        _STEPS.reset(token)
