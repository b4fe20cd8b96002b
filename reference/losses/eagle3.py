"""The loss of EAGLE-3: cross-entropy in passes of falling weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reference.losses.chain import ChainLoss, Rows
from reference.losses.kl import cross_entropy
from reference.losses.tensor_checks import check_distributions, check_shape
from spectheory.core.errors import InputError


class OnDraftVocabulary(NamedTuple):
    """The target's distributions on a smaller vocabulary.

    Attributes:
        target: the distributions given the draft's vocabulary; uniform where the coverage is 0.
        coverage: the target's probability of the draft's vocabulary.
        likeliest_inside: whether the target's likeliest token is in the draft's vocabulary.
    """

    target: Float[Tensor, "*rows M"]
    coverage: Float[Tensor, "*rows"]
    likeliest_inside: Bool[Tensor, "*rows"]


def on_draft_vocabulary(target: Float[Tensor, "*rows V"], inside: Bool[Tensor, " V"]) -> OnDraftVocabulary:
    """The target's distributions on a draft's vocabulary, the M true entries of `inside`.

    EAGLE-3's published code leaves out the positions whose likeliest token is outside the vocabulary: pass
    `mask & likeliest_inside` to do the same.

    Raises:
        InputError: `inside` has another shape or keeps no token, or the target's rows are not distributions.
    """
    check_shape("inside", inside, target.shape[-1:], "one entry for each token of the target")
    if inside.dtype != torch.bool or not inside.any():
        raise InputError(f"inside must be boolean and keep at least one token, got {inside.dtype}")
    check_distributions("target", target)
    part = target[..., inside]
    coverage = part.sum(-1)
    share = torch.where(coverage[..., None] > 0, part / coverage[..., None], 1 / part.shape[-1])
    return OnDraftVocabulary(share, coverage, inside[target.argmax(-1)])


@dataclass(frozen=True)
class Eagle3(ChainLoss):
    """The loss of EAGLE-3: the cross-entropy of each pass, with weights 1, 0.8, 0.64, ...

    What the source says: the draft is unrolled as in decoding (training-time test), its features are fed back, and
    there is no regression of features: they are free. The paper gives no formula. Its published code has 7 passes,
    weights 0.8^i, the cross-entropy against the target's distribution on the draft's vocabulary, and lets the gradient
    flow through all passes.

    What it leaves open: the divisor. The published code divides by all positions, padding included, so that the loss of
    a text depends on the texts it is padded with; here the divisor is the number of kept positions.

    Attributes:
        passes: number of passes of the draft; with 1 there is no unrolling.
        decay: weight of a pass relative to the one before.

    Source: EAGLE-3 (arXiv 2503.01840); SafeAILab/EAGLE, eagle/traineagle3.
    """

    name: ClassVar[str] = "eagle3"
    passes: int = 7

    def of_rows(self, rows: Rows) -> Tensor:
        return cross_entropy(rows.logits, rows.target)
