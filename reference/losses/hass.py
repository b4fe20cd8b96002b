"""The loss of HASS: EAGLE's loss in three passes, with more weight on the target's ten likeliest tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from reference.losses.chain import Rows
from reference.losses.eagle import Eagle
from reference.losses.needs import Needs, check_weights
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError


def top_cross_entropy(
    logits: Float[Tensor, "*rows V"], target: Float[Tensor, "*rows V"], top: int
) -> Float[Tensor, "*rows"]:
    """The cross-entropy -sum p(v) log q(v) over the `top` tokens of largest p; neither is divided by its sum."""
    likely = target.topk(top, dim=-1)
    return -(likely.values * logits.log_softmax(-1).gather(-1, likely.indices)).sum(-1)


@dataclass(frozen=True)
class Hass(Eagle):
    """The loss of HASS: three passes that read the draft's own features, and a top-10 cross-entropy.

    What the source says: harmonized context alignment feeds the features of the last pass back (`unroll`), three
    passes in all. Harmonized objective distillation adds L_top = -sum over the K tokens of largest p of p(v) log q(v),
    K = 10, with weight 1. So the loss of a pass is L_reg + 0.1 L_cls + L_top.

    What it leaves open: p and q are not normalised over the K tokens. How ties at the last of the K tokens are broken;
    here, as `torch.topk` does. Whether a gradient flows from one pass to the next: code derived from the published code
    cuts it and adds up the passes with equal weights. Both are done here.

    Attributes:
        passes: number of passes of the draft.
        decay: weight of a pass relative to the one before.
        feature_weight: weight of the regression.
        distribution_weight: weight of the cross-entropy.
        top: K.
        top_weight: weight of L_top.

    Source: HASS (arXiv 2408.15766).
    """

    name: ClassVar[str] = "hass"
    passes: int = 3
    decay: float = 1.0
    top: int = 10
    top_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("top", self.top, 1)
        check_weights(top_weight=self.top_weight)

    @property
    def needs(self) -> Needs:
        return Needs(passes=self.passes, detached=True, target_features=True)

    def of_rows(self, rows: Rows) -> Tensor:
        if self.top > rows.target.shape[-1]:
            raise InputError(f"top must be at most the vocabulary of {rows.target.shape[-1]} tokens, got {self.top}")
        return super().of_rows(rows) + self.top_weight * top_cross_entropy(rows.logits, rows.target, self.top)
