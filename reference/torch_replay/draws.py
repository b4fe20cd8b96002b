"""Draws of torch, enumerated by a `Branch`: choices, and uniform and exponential numbers as symbols without a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from reference.torch_replay.tags import Tags
from spectheory.core.chance import MOST_OUTCOMES, Branch, BranchError
from spectheory.core.coins import Coin, Exponential, Uniform, exact

Filled = Callable[[int], Sequence[Any]]
"""Returns as many entries as it is asked for."""


class Draws:
    """The draws of one branch. Each function has the arguments of the operation of torch with its name."""

    def __init__(self, branch: Branch, tags: Tags) -> None:
        self.branch, self.tags = branch, tags

    def can(self, name: str) -> bool:
        """Whether the draws of an operation can be enumerated."""
        return name in vars(Draws) and name != "can"

    def rand(self, size: Sequence[int], *, dtype: Any = None, **_: Any) -> torch.Tensor:
        return self._made(torch.empty(list(size), dtype=dtype), self._uniform)

    def rand_like(self, like: torch.Tensor, *, dtype: Any = None, **_: Any) -> torch.Tensor:
        return self._made(torch.empty(like.shape, dtype=dtype or like.dtype), self._uniform)

    def uniform_(self, tensor: torch.Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> torch.Tensor:
        return self._made(tensor, lambda count: [u * (high - low) + low for u in self._uniform(count)])

    def exponential_(self, tensor: torch.Tensor, lambd: float = 1.0, **_: Any) -> torch.Tensor:
        return self._made(tensor, lambda count: [Exponential(Coin(self.branch)) / lambd for _ in range(count)])

    def bernoulli(self, chances: torch.Tensor, p: Any = None, **_: Any) -> torch.Tensor:
        """`torch.bernoulli`: with the entries of `chances`, or with `p` for each entry."""
        return self.bernoulli_(torch.empty_like(chances), chances if p is None else p)

    def bernoulli_(self, tensor: torch.Tensor, p: Any = 0.5, **_: Any) -> torch.Tensor:
        chances = p if isinstance(p, torch.Tensor) else torch.tensor(p, dtype=torch.float64)
        torch.bernoulli(chances, generator=_other_generator())
        wanted = chances.expand(tensor.shape).reshape(-1).tolist()
        return self._made(tensor, lambda _: [self.branch.pick([1 - exact(c), exact(c)]) for c in wanted])

    def multinomial(self, weights: torch.Tensor, num_samples: int, replacement: bool = False, **_: Any) -> torch.Tensor:
        """`torch.multinomial`. Where no weight is left, the order is the one of torch."""
        found = torch.multinomial(weights, num_samples, replacement, generator=_other_generator())
        rows = [[exact(weight) for weight in row] for row in weights.reshape(-1, weights.shape[-1]).tolist()]
        self.branch.is_used = self.branch.is_rounded = True
        if num_samples == 1 or replacement:
            return torch.tensor(
                [self.tags.choice(lambda row=row: self.branch.pick(row)) for row in rows for _ in range(num_samples)]
            ).reshape(found.shape)
        return torch.stack([self._without_repeats(row, num_samples) for row in rows]).reshape(found.shape)

    def _without_repeats(self, weights: Sequence[Any], count: int) -> torch.Tensor:
        positive = min(count, sum(weight > 0 for weight in weights))
        drawn = self.branch.picks(weights, positive, replace=False)
        order = torch.zeros(len(weights))
        order[drawn] = torch.arange(positive, 0, -1).float()
        return torch.tensor(drawn) if positive == count else order.topk(count).indices

    def randint(self, *bounds: Any, dtype: Any = torch.int64, **_: Any) -> torch.Tensor:
        *span, size = bounds
        return self._made(torch.empty(list(size), dtype=dtype or torch.int64), self._whole(*span))

    def randint_like(self, like: torch.Tensor, *span: int, dtype: Any = None, **_: Any) -> torch.Tensor:
        return self._made(torch.empty(like.shape, dtype=dtype or like.dtype), self._whole(*span))

    def random_(self, tensor: torch.Tensor, *span: int, **_: Any) -> torch.Tensor:
        return self._made(tensor, self._whole(*(span or (MOST_OUTCOMES + 1,))))

    def randperm(self, n: int, *, dtype: Any = torch.int64, **_: Any) -> torch.Tensor:
        return torch.tensor(self.branch.picks([1] * n, n, replace=False), dtype=dtype or torch.int64)

    def _uniform(self, count: int) -> Sequence[Any]:
        return [Uniform(Coin(self.branch)) for _ in range(count)]

    def _whole(self, low: int, high: int | None = None) -> Filled:
        low, high = (0, low) if high is None else (low, high)
        return lambda count: [self.branch.integers(low, high) for _ in range(count)]

    def _made(self, tensor: torch.Tensor, fill: Filled) -> torch.Tensor:
        self.branch.is_used = self.branch.is_rounded = True
        entries = np.empty(tensor.numel(), dtype=object)
        entries[:] = fill(tensor.numel())
        return tensor.copy_(self.tags.tensor(entries.reshape(tuple(tensor.shape)), tensor.dtype))


def _other_generator() -> torch.Generator:
    """A generator with which torch checks arguments and shapes."""
    return torch.Generator().manual_seed(0)


class States:
    """The states from which generators have drawn. The same state twice gives the same numbers twice."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def advance(self, generator: torch.Generator | None) -> None:
        """Note a draw from a generator, and let it go on.

        Raises:
            BranchError: a generator was in this state before.
        """
        own = generator or torch.default_generator
        state = own.get_state().numpy().tobytes()
        if state in self.seen:
            raise BranchError(
                "two draws come from the same state of a torch.Generator, so their numbers are the same: a generator "
                "is seeded again, or two have one seed"
            )
        self.seen.add(state)
        torch.rand((), generator=own)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Context manager: the default generator gets its state back at the end, unless it was seeded."""
        seed, before = torch.initial_seed(), torch.get_rng_state()
        try:
            yield
        finally:
            if torch.initial_seed() == seed:
                torch.set_rng_state(before)
