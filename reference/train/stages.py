"""`Stage`: how the progress of several trainings in a row is reported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from reference.train.loop import Done

Stage = Callable[[str], AbstractContextManager[Done]]
"""A function from the name of a training to a context, in which the given function is called with finished steps."""


def silent(_: str) -> AbstractContextManager[Done]:
    """A stage that reports nothing."""
    return nullcontext(lambda finished, total: None)
