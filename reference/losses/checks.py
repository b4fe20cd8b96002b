"""Checks of tensors and weights. Each error names the tensor, what it is and the repair."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from spectheory.core.arrays import sum_tolerance
from spectheory.core.errors import InputError


def check_weights(**weights: float) -> None:
    """Refuse a weight that is not a finite number of at least 0."""
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise InputError(f"{name} must be a finite number of at least 0, got {weight!r:.80}")


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
