"""The losses that follow the text: EAGLE, HASS, EAGLE-3's unrolled cross-entropy and LK."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from reference.losses.passes import Pass
from spectheory.core.arrays import sum_tolerance
from spectheory.core.checks import check_number, check_whole
from spectheory.core.errors import InputError

if TYPE_CHECKING:
    from reference.heads.config import Kind


@dataclass(frozen=True)
class Loss(ABC):
    """A training loss with its settings; the fields of each subclass are the settings.

    Attributes:
        name: the name by which the command line knows the loss.
        head: the kind of head that the loss was made for.
    """

    name: ClassVar[str]
    head: ClassVar[Kind] = "eagle3"


class Rows(NamedTuple):
    """The N rows of one pass that a loss reads.

    Attributes:
        logits: the draft's logits.
        target: the target's probabilities of the same tokens; with a draft vocabulary they sum to less than 1.
        features: the draft's features.
        target_features: the target's features at the same positions; None if the loss does not need them.
    """

    logits: Float[Tensor, "N V"]
    target: Float[Tensor, "N V"]
    features: Float[Tensor, "N D"]
    target_features: Float[Tensor, "N D"] | None


def check_shape(name: str, tensor: Tensor, shape: Sequence[int], of: str) -> None:
    """Refuse a tensor of another shape; `of` says where the expected shape comes from."""
    if tuple(tensor.shape) != tuple(shape):
        raise InputError(f"{name} must have shape {tuple(shape)}, {of}, got {tuple(tensor.shape)}")


def check_rows(logits: Float[Tensor, "*rows V"], target: Float[Tensor, "*rows V"], mask: Bool[Tensor, "*rows"]) -> None:
    """Refuse logits and distributions that do not match, a mask that keeps nothing, and kept rows of no distribution.

    With a draft vocabulary, a row sums to less than 1. In half precision a softmax does not sum to 1.
    """
    check_shape("target", target, logits.shape, "the shape of the logits")
    check_shape("mask", mask, logits.shape[:-1], "the rows of the logits")
    if mask.dtype != torch.bool or not mask.any():
        raise InputError("mask must be boolean and keep at least one position: leave out batches without any")
    sums = target.sum(-1)[mask]
    if (wrong := ~((sums > 0) & (sums <= 1 + sum_tolerance(target.shape[-1])))).any():  # NaN as well
        raise InputError(
            f"target must be distributions, got a row of sum {float(sums[wrong][0]):.6g}: take softmax in float32, and "
            "leave out of the mask where the target emits no token of the draft's vocabulary"
        )


def kept_rows(mask: Bool[Tensor, "B L"], index: int) -> Bool[Tensor, "B rows"]:
    """The rows r of pass `index` for which the mask is true at r, r + 1, ..., r + index."""
    return mask.unfold(1, index + 1, 1).all(-1) if index < mask.shape[1] else mask[:, :0]


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
        detached: whether no gradient flows through the features from one pass to the next.
        compares_features: whether the target's features at the predicted positions are needed.
    """

    detached: ClassVar[bool] = False
    compares_features: ClassVar[bool] = False
    passes: int = 1
    decay: float = 0.8

    def __post_init__(self) -> None:
        check_whole("passes", self.passes, 1)
        for name, value in vars(self).items():
            check_number(name, value, 0)

    @abstractmethod
    def of_rows(self, rows: Rows) -> Float[Tensor, " N"]:
        """The loss of each row of one pass."""

    @final
    def __call__(
        self,
        passes: Sequence[Pass],
        target: Float[Tensor, "B L V"],
        mask: Bool[Tensor, "B L"],
        *,
        target_features: Float[Tensor, "B L D"] | None = None,
    ) -> Float[Tensor, ""]:
        """The loss of a batch of B rows of L positions, a scalar.

        What the mask leaves out is not read at all, so padding may hold anything, and no gradient flows into it.

        Args:
            passes: what `unroll` returned.
            target: the target's distribution that row r of the first pass predicts, for each r, without gradient. If
                the draft has a smaller vocabulary, the probabilities of its tokens alone.
            mask: the positions from which the draft learns.
            target_features: the target's features at the positions whose features the first pass predicts.

        Raises:
            InputError: shapes do not match, rows are no distributions, or the mask keeps nothing.
        """
        if len(passes) != self.passes:
            raise InputError(f"passes must be {self.passes}, as the loss {self.name} is set, got {len(passes)}")
        check_rows(passes[0].logits, target, mask)
        if not self.compares_features:
            target_features = None
        elif target_features is None:
            raise InputError(f"target_features must be given: the loss {self.name} compares features")
        else:
            check_shape("target_features", target_features, passes[0].features.shape, "the shape of the features")
        total = target.new_zeros(())
        for index, one in enumerate(passes):
            kept = kept_rows(mask, index)
            rows, there = slice(None, kept.shape[1]), slice(mask.shape[1] - kept.shape[1], None)
            features = None if target_features is None else target_features[:, there][kept]
            read = Rows(one.logits[:, rows][kept], target[:, there][kept], one.features[:, rows][kept], features)
            total = total + self.decay**index * self.of_rows(read).sum()
        return total / mask.sum()


def cross_entropy(logits: Float[Tensor, "*rows V"], target: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """The cross-entropy -sum_v p(v) log q(v), where q is the softmax of the logits and p the target, normalised."""
    return -(target * logits.log_softmax(-1)).sum(-1) / target.sum(-1)


def kl(logits: Float[Tensor, "*rows V"], target: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """KL(p | q) = sum_v p(v) log(p(v) / q(v)): the cross-entropy minus the entropy of p, the target, normalised."""
    coverage = target.sum(-1)
    return cross_entropy(logits, target) - torch.special.entr(target).sum(-1) / coverage - coverage.log()


def acceptance(p: Float[Tensor, "*rows V"], q: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """sum_v min(p(v), q(v)): the probability that a token drawn from q is accepted.

    >>> float(acceptance(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.25, 0.5])))
    0.5
    """
    return torch.minimum(p, q).sum(-1)


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
        feature_weight: weight of the regression.
        distribution_weight: weight of the cross-entropy.

    Source: EAGLE (arXiv 2401.15077), training of the draft model.
    """

    name: ClassVar[str] = "eagle"
    head = "eagle1"
    compares_features = True
    feature_weight: float = 1.0
    distribution_weight: float = 0.1

    def of_rows(self, rows: Rows) -> Tensor:
        assert rows.target_features is not None
        regression = smooth_l1_loss(rows.features, rows.target_features, reduction="none").mean(-1)
        return self.feature_weight * regression + self.distribution_weight * cross_entropy(rows.logits, rows.target)


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
        top: K.
        top_weight: weight of L_top.

    Source: HASS (arXiv 2408.15766).
    """

    name: ClassVar[str] = "hass"
    detached = True
    passes: int = 3
    decay: float = 1.0
    top: int = 10
    top_weight: float = 1.0

    def of_rows(self, rows: Rows) -> Tensor:
        check_whole("top", self.top, 1, most=rows.target.shape[-1])
        likely = rows.target.topk(self.top, dim=-1)
        crossed = -(likely.values * rows.logits.log_softmax(-1).gather(-1, likely.indices)).sum(-1)
        return super().of_rows(rows) + self.top_weight * crossed / rows.target.sum(-1)


@dataclass(frozen=True)
class Eagle3(ChainLoss):
    """The loss of EAGLE-3: the cross-entropy of each pass, with weights 1, 0.8, 0.64, ...

    What the source says: the draft is unrolled as in decoding (training-time test), its features are fed back, and
    there is no regression of features: they are free. The paper gives no formula. Its published code has 7 passes,
    weights 0.8^i, the cross-entropy against the target's distribution on the draft's vocabulary, and lets the gradient
    flow through all passes.

    What it leaves open: the divisor. The published code divides by all positions, padding included, so that the loss of
    a text depends on the texts it is padded with; here the divisor is the number of kept positions.

    Source: EAGLE-3 (arXiv 2503.01840); SafeAILab/EAGLE, eagle/traineagle3.
    """

    name: ClassVar[str] = "eagle3"
    passes: int = 7

    def of_rows(self, rows: Rows) -> Tensor:
        return cross_entropy(rows.logits, rows.target)


@dataclass(frozen=True)
class Lk(ChainLoss):
    """LK^lambda: weight KL + (1 - weight) TV, where the weight falls as the acceptance rises.

    What the source says: the weight is exp(-eta alpha), with alpha the mean acceptance, through which no gradient
    flows, and eta = 3. So training starts close to KL and ends close to total variation. If the draft has a smaller
    vocabulary, KL takes the distribution given that vocabulary, and TV the target's own probabilities.

    What it leaves open: over which rows alpha is averaged. Public implementations differ (one weight for each pass, or
    one for each token). Here each pass has one weight, from the mean over all its rows in the batch.

    Attributes:
        eta: how fast the weight of KL falls; 0 is KL alone, and a large number total variation alone.

    Source: LK Losses: Direct Acceptance Rate Optimization for Speculative Decoding (arXiv 2602.23881).
    """

    name: ClassVar[str] = "lk"
    eta: float = 3.0

    def of_rows(self, rows: Rows) -> Tensor:
        accepted = acceptance(rows.target, rows.logits.softmax(-1))
        weight = torch.exp(-self.eta * accepted.detach().mean())
        return weight * kl(rows.logits, rows.target) + (1 - weight) * (1 - accepted)
