"""Inputs of the losses that follow the text."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import log2
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reference.losses import ChainLoss, Pass


class Batch(NamedTuple):
    """Input of a chain loss: B = 3 rows of L = 5 positions, V = 6 tokens of a larger vocabulary, width 4."""

    logits: list[Tensor]
    features: list[Tensor]
    target: Tensor
    mask: Tensor
    target_features: Tensor

    def by(self, loss: ChainLoss) -> Tensor:
        passes = [Pass(*both) for both in zip(self.features, self.logits, strict=True)]
        return loss(passes, self.target, self.mask, target_features=self.target_features)

    def through(self, change: Callable[[Tensor], Tensor]) -> Batch:
        logits, features = ([change(one) for one in many] for many in (self.logits, self.features))
        return Batch(logits, features, *(change(one) for one in self[2:]))


def batch(passes: int = 2, seed: int = 0) -> Batch:
    rng = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(3, 5, *shape, dtype=torch.float64, generator=rng)

    mask = torch.tensor(
        [[True, True, True, True, True], [True, True, False, True, True], [True, True, True, True, True]]
    )
    return Batch(
        [drawn(6) for _ in range(passes)],
        [drawn(4) for _ in range(passes)],
        drawn(6).softmax(-1) * drawn(1).sigmoid(),
        mask,
        drawn(4),
    )


def dyadic(*parts: int) -> list[Fraction]:
    total = sum(parts)
    assert log2(total).is_integer()
    return [Fraction(part, total) for part in parts]


def tensor(values: list[Fraction]) -> Tensor:
    return torch.tensor([float(one) for one in values], dtype=torch.float64)


def one_row(logits: Tensor, target: Tensor) -> dict[str, Any]:
    return {
        "passes": [Pass(torch.zeros(1, 1, 1, dtype=torch.float64), logits[None, None])],
        "target": target[None, None],
        "mask": torch.ones(1, 1, dtype=torch.bool),
    }
