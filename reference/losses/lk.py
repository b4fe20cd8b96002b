"""The LK losses, which aim at the probability that a draft is accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from reference.losses.chain import ChainLoss, Rows
from reference.losses.kl import kl
from reference.losses.needs import check_weights
from reference.losses.tv import acceptance, covered


def log_acceptance(logits: Float[Tensor, "*rows V"], target: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """Log sum_v min(p(v), q(v)), computed from logarithms, so that it is finite where q(v) is rounded to 0."""
    return torch.minimum(target.log(), logits.log_softmax(-1)).logsumexp(-1)


@dataclass(frozen=True)
class LkAlpha(ChainLoss):
    """LK^alpha: the negative logarithm of the acceptance, -log sum_v min(p(v), q(v)).

    What the source says: alpha = sum_v min(p(v), q(v)) is the acceptance of one draft, and the loss is -log alpha. Its
    gradient is that of total variation divided by alpha, so it does not vanish where acceptance is low. For a target
    with one possible token it is the cross-entropy. If the draft has a smaller vocabulary, alpha is taken with the
    target's own probabilities, which sum to the coverage.

    What it leaves open: alpha of 0. Public implementations add or clamp at a small number; here the logarithm of the
    sum is computed from logarithms, so it is finite wherever the coverage is above 0.

    Source: LK Losses: Direct Acceptance Rate Optimization for Speculative Decoding (arXiv 2602.23881).
    """

    name: ClassVar[str] = "lk_alpha"

    def of_rows(self, rows: Rows) -> Tensor:
        return -log_acceptance(rows.logits, covered(rows))


@dataclass(frozen=True)
class LkLambda(ChainLoss):
    """LK^lambda: weight KL + (1 - weight) TV, where the weight falls as the acceptance rises.

    What the source says: the weight is exp(-eta alpha), with alpha the mean acceptance, through which no gradient
    flows, and eta = 3. So training starts close to KL and ends close to total variation. If the draft has a smaller
    vocabulary, KL takes the distribution given that vocabulary, and TV the target's own probabilities.

    What it leaves open: over which rows alpha is averaged. Public implementations differ (one weight for each pass, or
    one for each token). Here each pass has one weight, from the mean over all its rows in the batch.

    Attributes:
        passes: number of passes of the draft.
        decay: weight of a pass relative to the one before.
        eta: how fast the weight of KL falls; 0 is KL alone.

    Source: LK Losses: Direct Acceptance Rate Optimization for Speculative Decoding (arXiv 2602.23881).
    """

    name: ClassVar[str] = "lk_lambda"
    eta: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights(eta=self.eta)

    def of_rows(self, rows: Rows) -> Tensor:
        accepted = acceptance(covered(rows), rows.logits.softmax(-1))
        weight = torch.exp(-self.eta * accepted.detach().mean())
        return weight * kl(rows.logits, rows.target) + (1 - weight) * (1 - accepted)
