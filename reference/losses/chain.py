"""The frame of the losses that follow the text: passes, shifts, masks and weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reference.losses.needs import Loss, Needs, check_weights
from reference.losses.tensor_checks import (
    check_distributions,
    check_logits,
    check_mask,
    check_precision,
    check_shape,
    chosen,
)
from reference.losses.unrolling import Pass
from spectheory.core.arrays import SUM_TOLERANCE
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError


class Rows(NamedTuple):
    """The rows of one pass that a loss reads, N of them or, where all are read, in a B x L grid.

    Attributes:
        logits: the draft's logits.
        target: the target's distribution of the same token.
        features: the draft's features.
        target_features: the target's features at the same positions; None if the loss does not need them.
        coverage: the target's probability of the draft's vocabulary; None if the draft has all tokens.
    """

    logits: Float[Tensor, "*rows V"]
    target: Float[Tensor, "*rows V"]
    features: Float[Tensor, "*rows D"]
    target_features: Float[Tensor, "*rows D"] | None
    coverage: Float[Tensor, "*rows"] | None


def kept_rows(mask: Bool[Tensor, "B L"], index: int) -> Bool[Tensor, "B rows"]:
    """The rows r of pass `index` for which the mask is true at r, r + 1, ..., r + index."""
    length = mask.shape[1] - min(index, mask.shape[1])
    kept = mask[:, :length]
    for offset in range(1, index + 1):
        kept = kept & mask[:, offset : offset + length]
    return kept


@dataclass(frozen=True)
class ChainLoss(Loss):
    """A loss that follows the text: sum_i decay^i (1 / n) sum over the rows of pass i, where n counts the first pass.

    Row r of pass i is compared with the target at position r + i. It is read only if the mask is true at r, r + 1, ...,
    r + i, so no pass reaches across padding or across the border of two texts. Every pass is divided by n, the number
    of rows of the first pass, as in the published code: later passes have a few rows less. (That code divides by a
    fixed number of rows and looks at r + i only.)

    Attributes:
        passes: number of passes of the draft.
        decay: weight of a pass relative to the one before.
    """

    passes: int = 1
    decay: float = 0.8

    def __post_init__(self) -> None:
        check_whole("passes", self.passes, 1)
        check_weights(decay=self.decay)

    @property
    def needs(self) -> Needs:
        """See Loss.needs: the passes and the target's distributions."""
        return Needs(passes=self.passes)

    @abstractmethod
    def of_rows(self, rows: Rows) -> Float[Tensor, "*rows"]:
        """The loss of each row of one pass."""

    @final
    def __call__(
        self,
        passes: Sequence[Pass],
        target: Float[Tensor, "B L V"],
        mask: Bool[Tensor, "B L"],
        *,
        target_features: Float[Tensor, "B L D"] | None = None,
        coverage: Float[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, ""]:
        """The loss of a batch of B rows of L positions, a scalar.

        Args:
            passes: what `unroll` returned.
            target: the target's distribution that row r of the first pass predicts, for each r, without gradient. If
                the draft has a smaller vocabulary, the distribution given that vocabulary.
            mask: the positions from which the draft learns.
            target_features: the target's features at the positions whose features the first pass predicts.
            coverage: the target's probability of the draft's vocabulary, above 0 where the mask is true; None if the
                draft has all tokens.

        Raises:
            InputError: shapes or precisions do not match, probabilities do not sum to 1, or the mask keeps nothing.
        """
        self._check(passes, target, mask, target_features, coverage)
        return self._call(passes, target, mask, target_features, coverage)

    def _call(
        self,
        passes: Sequence[Pass],
        target: Tensor,
        mask: Tensor,
        target_features: Tensor | None,
        coverage: Tensor | None,
    ) -> Tensor:
        total = target.new_zeros(())
        for index, one in enumerate(passes):
            kept = kept_rows(mask, index)
            rows, there = slice(None, kept.shape[1]), slice(mask.shape[1] - kept.shape[1], None)
            read = Rows(
                chosen(one.logits[:, rows], kept),
                chosen(target[:, there], kept),
                chosen(one.features[:, rows], kept),
                None if target_features is None else chosen(target_features[:, there], kept),
                None if coverage is None else chosen(coverage[:, there], kept),
            )
            total = total + self.decay**index * self.of_rows(read).sum()
        return total / mask.sum()

    def _check(
        self,
        passes: Sequence[Pass],
        target: Tensor,
        mask: Tensor,
        target_features: Tensor | None,
        coverage: Tensor | None,
    ) -> None:
        if len(passes) != self.passes:
            raise InputError(f"passes must be {self.passes}, as the loss {self.name} is set, got {len(passes)}")
        logits, features = passes[0].logits, passes[0].features
        check_logits(logits, 3)
        check_shape("target", target, logits.shape, "the shape of the logits")
        check_precision("target", target, "the logits", logits.dtype)
        check_mask("mask", mask, logits.shape[:2], "the rows and positions of the logits")
        for one in passes:
            check_shape("the logits of each pass", one.logits, logits.shape, "as in the first pass")
            check_shape("the features of each pass", one.features, (*mask.shape, features.shape[-1]), "as in the first")
        check_distributions("target", target, mask)
        if coverage is not None:
            _check_coverage(coverage, mask, logits.dtype)
        if not self.needs.target_features:
            return
        if target_features is None:
            raise InputError(f"target_features must be given: the loss {self.name} compares features")
        check_shape("target_features", target_features, features.shape, "the shape of the draft's features")
        check_precision("target_features", target_features, "the draft's features", features.dtype)


def _check_coverage(coverage: Tensor, mask: Tensor, precision: torch.dtype) -> None:
    check_shape("coverage", coverage, mask.shape, "the shape of the mask")
    check_precision("coverage", coverage, "the logits", precision)
    wrong = mask & ~((coverage > 0) & (coverage <= 1 + SUM_TOLERANCE))
    if wrong.any():
        raise InputError(
            f"coverage must be above 0 and at most 1, got {float(coverage[wrong][0]):g}: leave out of the mask the "
            "positions where the target never emits a token of the draft's vocabulary"
        )
