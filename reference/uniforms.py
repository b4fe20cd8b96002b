"""The random numbers of drafts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator

BLOCK = 1024


class Uniforms:
    """Uniform numbers of a generator on the host, drawn a block at a time: a call takes as long as a hundred."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self._block, self._taken = np.empty(0), 0

    def take(self, count: int) -> np.ndarray:
        """The next ones, (count,) float64 on [0, 1)."""
        first, self._taken = self._taken, self._taken + count
        if self._taken > len(self._block):
            self._block = torch.rand(max(count, BLOCK), generator=self.generator, dtype=torch.float64).numpy()
            first, self._taken = 0, count
        return self._block[first : self._taken]
