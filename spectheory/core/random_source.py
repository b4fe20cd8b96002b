"""`RandomSource`, what solvers, draws and policies need of a source of random numbers."""

from __future__ import annotations

from typing import Any, Protocol


class RandomSource(Protocol):
    """A `numpy.random.Generator`, a `Branch`, which enumerates the outcomes, or anything else with these methods."""

    def random(self) -> Any:
        """A uniform number from 0 to below 1."""
        ...

    def permutation(self, x: Any, /) -> Any:
        """The entries of `x` in random order."""
        ...
