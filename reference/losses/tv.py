"""Total variation between the target's and the draft's distribution: the probability that a draft is rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from reference.losses.chain import ChainLoss, Rows


def acceptance(p: Float[Tensor, "*rows V"], q: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """sum_v min(p(v), q(v)): the probability that a token drawn from q is accepted.

    >>> float(acceptance(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.25, 0.5])))
    0.5
    """
    return torch.minimum(p, q).sum(-1)


def covered(rows: Rows) -> Float[Tensor, "*rows V"]:
    """The target's probabilities of the draft's vocabulary; they sum to the coverage, not to 1."""
    return rows.target if rows.coverage is None else rows.target * rows.coverage[..., None]


@dataclass(frozen=True)
class Tv(ChainLoss):
    """Total variation, 1 - sum_v min(p(v), q(v)): the probability that one draft is rejected at temperature 1.

    What the source says: the acceptance of a token drawn from q is sum_v min(p(v), q(v)) = 1 - TV(p, q).

    Where it is ambiguous: if the draft has a smaller vocabulary, its tokens are accepted with the target's own
    probabilities, which sum to the coverage. `coverage` says how much that is; TV is then 1 - acceptance.

    What is done here: where p(v) = q(v), the gradient of the minimum is half that of q(v). The gradient is small where
    the distributions are far apart, so a draft should be trained with `Kl` or `LkLambda` first.

    Source: Leviathan, Kalman and Matias (arXiv 2211.17192), Section 3.
    """

    name: ClassVar[str] = "tv"

    def of_rows(self, rows: Rows) -> Tensor:
        return 1 - acceptance(covered(rows), rows.logits.softmax(-1))
