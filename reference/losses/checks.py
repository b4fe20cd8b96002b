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

    In half precision a softmax does not sum to 1.
    """
    if logits.dtype not in (torch.float32, torch.float64) or target.dtype != logits.dtype:
        raise InputError(f"logits and target must both be in float32 or float64, got {logits.dtype} and {target.dtype}")
    check_shape("target", target, logits.shape, "the shape of the logits")
    check_shape("mask", mask, logits.shape[:-1], "the rows of the logits")
    if mask.dtype != torch.bool or not mask.any():
        raise InputError("mask must be boolean and keep at least one position: leave out batches without any")
    check_distributions("target", target, mask)


def check_distributions(name: str, rows: Float[Tensor, "*rows V"], kept: Bool[Tensor, "*rows"]) -> None:
    """Refuse rows that are not distributions; only rows that are `kept` are read."""
    lowest, sums = rows.amin(-1), rows.sum(-1)
    wrong = kept & ~((lowest >= 0) & ((sums - 1).abs() <= sum_tolerance(rows.shape[-1])))  # NaN as well
    if wrong.any():
        place = tuple(int(one) for one in wrong.nonzero()[0])
        raise InputError(
            f"{name} must be distributions: entries of at least 0 that sum to 1; row {place} has the sum "
            f"{float(sums[place]):.6g} and the lowest entry {float(lowest[place]):.6g}: take softmax in float32"
        )


def chosen(rows: Tensor, kept: Tensor) -> Tensor:
    """The rows (N, ...) that are kept, or, without a copy, all rows (..., ...) in their own shape if all are kept.

    What is not kept is not read at all, so padding may hold anything, and no gradient flows into it.
    """
    return rows if kept.all() else rows[kept]
