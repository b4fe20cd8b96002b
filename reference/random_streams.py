"""Random numbers of a text: one generator for the drafter, one for the verifier, both drawn from in blocks.

One number takes as long as a hundred.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator

from reference.models import Pair

BLOCK = 1024


class Uniforms:
    """Uniform random numbers for drafters, from a torch generator."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self._block, self._taken = np.empty(0), 0

    def take(self, count: int) -> np.ndarray:
        """The next `count` numbers on [0, 1), a float64 array on the host."""
        first, self._taken = self._taken, self._taken + count
        if self._taken > len(self._block):
            self._block = torch.rand(max(count, BLOCK), generator=self.generator, dtype=torch.float64).numpy()
            first, self._taken = 0, count
        return self._block[first : self._taken]


class Coins:
    """A NumPy generator for verifiers. Single uniform numbers come from a block, everything else from the generator."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self._block: list[float] = []

    def random(self, *size: Any, **options: Any) -> Any:
        if size or options:
            return self.generator.random(*size, **options)
        if not self._block:
            self._block = self.generator.random(BLOCK).tolist()
        return self._block.pop()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.generator, name)


def streams(pair: Pair, *seed: int) -> tuple[Generator, np.random.Generator]:
    """The drafter's generator, on the device of the models, and the verifier's, on the host.

    They are independent of each other, and of the generators of every other `seed` with as many numbers.
    """
    drafting, verifying = np.random.SeedSequence(seed).spawn(2)
    return Generator(pair.device).manual_seed(int(drafting.generate_state(1)[0])), np.random.default_rng(verifying)
