"""Draws of torch, enumerated by a `Branch`: choices, and uniform and exponential numbers as symbols without a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from reference.torch_replay.tags import Tags
from spectheory.core.chance import Branch, BranchError
from spectheory.core.coins import Coin, Exponential, Uniform, exact

GRIDS = {torch.float16: 2048, torch.bfloat16: 256}
"""Number of uniform numbers that torch draws in these types: the multiples of 1 over it."""


def refuse_grid(kind: torch.dtype, what: str) -> None:
    if kind in GRIDS:
        raise BranchError(f"{what} in {kind} cannot be enumerated: use torch.float32, or the black box")


class Draws:
    """The draws of one branch. Each function has the arguments of the operation of torch with its name."""

    def __init__(self, branch: Branch, tags: Tags) -> None:
        self.branch, self.tags = branch, tags

    def can(self, name: str) -> bool:
        """Whether the draws of an operation can be enumerated."""
        return name in vars(Draws) and name != "can"

    def rand(self, size: Sequence[int], *, dtype: Any = None, **_: Any) -> torch.Tensor:
        return self.uniform_(torch.empty(list(size), dtype=dtype))

    def rand_like(self, like: torch.Tensor, *, dtype: Any = None, **_: Any) -> torch.Tensor:
        return self.uniform_(torch.empty(like.shape, dtype=dtype or like.dtype))

    def uniform_(self, tensor: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        if (low, high) != (0, 1):
            refuse_grid(tensor.dtype, "uniform numbers with bounds")
        grid = GRIDS.get(tensor.dtype)
        return self._made(tensor, lambda _: Uniform(Coin(self.branch, grid)) * (high - low) + low)

    def exponential_(self, tensor: torch.Tensor, lambd: float = 1.0) -> torch.Tensor:
        refuse_grid(tensor.dtype, "exponential numbers")
        return self._made(tensor, lambda _: Exponential(Coin(self.branch)) / lambd)

    def bernoulli(self, chances: torch.Tensor, p: Any = None) -> torch.Tensor:
        """`torch.bernoulli`: with the entries of `chances`, or with `p` for each entry."""
        return self.bernoulli_(torch.empty_like(chances), chances if p is None else p)

    def bernoulli_(self, tensor: torch.Tensor, p: Any = 0.5) -> torch.Tensor:
        wanted = torch.as_tensor(p, dtype=torch.float64).expand(tensor.shape).reshape(-1).tolist()
        return self._made(tensor, lambda i: self.branch.pick([1 - exact(wanted[i]), exact(wanted[i])]))

    def multinomial(self, weights: torch.Tensor, num_samples: int, replacement: bool = False) -> torch.Tensor:
        refuse_grid(weights.dtype, "a race of the weights")
        # torch checks the arguments, with a generator of its own
        found = torch.multinomial(weights, num_samples, replacement, generator=torch.Generator())
        rows = [[exact(weight) for weight in row] for row in weights.reshape(-1, weights.shape[-1]).tolist()]
        self.branch.is_used = self.branch.is_rounded = True
        if num_samples == 1 or replacement:
            drawn = [
                [self.tags.choice(lambda row=row: self.branch.pick(row)) for _ in range(num_samples)] for row in rows
            ]
        else:
            drawn = [self.branch.picks(row, num_samples, replace=False) for row in rows]
        return torch.tensor(drawn).reshape(found.shape)

    def randint(self, *bounds: Any, dtype: Any = torch.int64, **_: Any) -> torch.Tensor:
        *span, size = bounds
        return self._made(torch.empty(list(size), dtype=dtype), lambda _: self.branch.integers(*span))

    def randperm(self, n: int, *, dtype: Any = torch.int64, **_: Any) -> torch.Tensor:
        return torch.tensor(self.branch.picks([1] * n, n, replace=False), dtype=dtype)

    def _made(self, tensor: torch.Tensor, entry: Callable[[int], Any]) -> torch.Tensor:
        self.branch.is_used = self.branch.is_rounded = True
        entries = np.empty(tensor.numel(), dtype=object)
        entries[:] = [entry(i) for i in range(tensor.numel())]
        return tensor.copy_(self.tags.tensor(entries.reshape(tuple(tensor.shape)), tensor.dtype))


class States:
    """The states from which generators have drawn. The same state twice gives the same numbers twice."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def advance(self, generator: torch.Generator | None) -> None:
        """Note a draw from a generator, and let it go on; a BranchError if it was in this state before."""
        own = generator or torch.default_generator
        state = own.get_state().numpy().tobytes()
        if state in self.seen:
            raise BranchError(
                "two draws come from the same state of a torch.Generator, so their numbers are the same: a generator "
                "is seeded again, or two have one seed"
            )
        self.seen.add(state)
        torch.rand((), generator=own)
