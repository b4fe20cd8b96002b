"""Cross-entropy and KL divergence from the target's distribution to the draft's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from reference.losses.chain import ChainLoss, Rows


def cross_entropy(logits: Float[Tensor, "*rows V"], target: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """The cross-entropy -sum_v p(v) log q(v), where q is the softmax of the logits."""
    return -(target * logits.log_softmax(-1)).sum(-1)


def kl(logits: Float[Tensor, "*rows V"], target: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """KL(p | q) = sum_v p(v) log(p(v) / q(v)): the cross-entropy minus the target's entropy."""
    return cross_entropy(logits, target) - torch.special.entr(target).sum(-1)


@dataclass(frozen=True)
class Kl(ChainLoss):
    """KL divergence from the target to the draft, the plain distillation loss.

    What the source says: KL(p | q) = sum_v p(v) log(p(v) / q(v)). Its gradient is the gradient of the cross-entropy,
    because the target's entropy does not depend on the draft (claim T-CE); only the value differs, which is 0 for a
    perfect draft.

    What it leaves open: the passes. The default is one pass, so that nothing but the divergence differs from `Tv`.

    Source: Hinton, Vinyals and Dean, Distilling the Knowledge in a Neural Network (arXiv 1503.02531).
    """

    name: ClassVar[str] = "kl"

    def of_rows(self, rows: Rows) -> Tensor:
        return kl(rows.logits, rows.target)
