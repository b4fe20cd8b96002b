"""The loss of EAGLE: regression of features and cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from reference.losses.chain import ChainLoss, Rows
from reference.losses.kl import cross_entropy
from reference.losses.needs import Needs, check_weights
from spectheory.core.errors import InputError


def feature_regression(
    features: Float[Tensor, "*rows D"], target_features: Float[Tensor, "*rows D"]
) -> Float[Tensor, "*rows"]:
    """The mean over the width of SmoothL1(f - f'): x^2 / 2 where |x| < 1, else |x| - 1/2."""
    return smooth_l1_loss(features, target_features, reduction="none").mean(-1)


@dataclass(frozen=True)
class Eagle(ChainLoss):
    """The loss of EAGLE-1 and EAGLE-2: SmoothL1 of the features + 0.1 times the cross-entropy.

    What the source says: L = L_reg + w L_cls, with L_reg = SmoothL1(f_s, f_s^(d)), L_cls = -sum_v p(v) log p^(d)(v),
    and w = 0.1, because the cross-entropy is about ten times as large as the regression.

    Where it is ambiguous: the SALF & TALF paper renders L_reg as the L1 norm and says that it set lambda_cls = 10 and
    lambda_reg = 1 for EAGLE, the opposite proportion. Here the published 1 and 0.1 are the defaults. The mean over the
    width is taken, as in the published code, so the regression does not grow with the width of the target.

    What is done here: one pass. The noise that EAGLE adds to the features is a matter of the data, not of the loss.

    Attributes:
        passes: number of passes of the draft, 1 in the source.
        decay: weight of a pass relative to the one before.
        feature_weight: weight of the regression.
        distribution_weight: weight of the cross-entropy.

    Source: EAGLE (arXiv 2401.15077), training of the draft model.
    """

    name: ClassVar[str] = "eagle"
    head = "eagle1"
    feature_weight: float = 1.0
    distribution_weight: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weights(feature_weight=self.feature_weight, distribution_weight=self.distribution_weight)

    @property
    def needs(self) -> Needs:
        return Needs(passes=self.passes, target_features=True)

    def of_rows(self, rows: Rows) -> Tensor:
        return self.feature_weight * self._regression(rows) + self.distribution_weight * cross_entropy(
            rows.logits, rows.target
        )

    def _regression(self, rows: Rows) -> Tensor:
        if rows.target_features is None:
            raise InputError(f"target_features must be given: the loss {self.name} compares features")
        return feature_regression(rows.features, rows.target_features)
