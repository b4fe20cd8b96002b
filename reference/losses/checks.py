"""Checks of tensors and weights. Each error names the tensor, what it is and the repair."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from spectheory.core.arrays import SUM_TOLERANCE
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


def check_like(name: str, tensor: Tensor, other: Tensor, of: str) -> None:
    """Refuse a tensor of another shape or precision than `other`, which the message calls `of`."""
    check_shape(name, tensor, other.shape, f"the shape of {of}")
    if tensor.dtype != other.dtype:
        raise InputError(
            f"{name} must have the precision of {of}, {other.dtype}, got {tensor.dtype}: convert with "
            f".to({other.dtype})"
        )


def check_logits(logits: Tensor, name: str = "logits") -> None:
    """Refuse logits without three dimensions, or in half precision, in which a softmax does not sum to 1."""
    if logits.dim() != 3:
        raise InputError(f"{name} must have 3 dimensions, the last for tokens, got {tuple(logits.shape)}")
    if logits.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} must be in float32 or float64, got {logits.dtype}: convert with .float()")


def check_mask(name: str, mask: Tensor, shape: Sequence[int], of: str, *, empty: bool = False) -> None:
    """Refuse a mask that is not boolean, has another shape or, unless it may be empty, keeps nothing."""
    check_shape(name, mask, shape, of)
    if mask.dtype != torch.bool:
        raise InputError(f"{name} must be boolean, got {mask.dtype}: compare with 0")
    if not empty and not mask.any():
        raise InputError(f"{name} must keep at least one position: leave out batches in which nothing is to be learned")


def check_distributions(name: str, rows: Float[Tensor, "*rows V"], kept: Bool[Tensor, "*rows"]) -> None:
    """Refuse rows that are not distributions; only rows that are `kept` are read."""
    lowest, sums = rows.amin(-1), rows.sum(-1)
    wrong = kept & ~((lowest >= 0) & ((sums - 1).abs() <= SUM_TOLERANCE))  # NaN as well
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
