"""Operations of torch on single entries, of which some are random numbers without a value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from spectheory.core.coins import Unknown


def _divided(first: Any, second: Any) -> Any:
    if isinstance(second, Unknown):
        return first / second if first else 0.0
    if second:
        return first / second
    sign = first.sign() * math.copysign(1, second)
    return sign * math.inf if sign else math.nan


def _larger(first: Any, second: Any) -> Any:
    return first.bounded(second, below=True) if isinstance(first, Unknown) else second.bounded(first, below=True)


def _smaller(first: Any, second: Any) -> Any:
    return first.bounded(second, below=False) if isinstance(first, Unknown) else second.bounded(first, below=False)


def _clamped(entry: Any, low: Any = None, high: Any = None) -> Any:
    entry = entry if low is None else _larger(entry, low) if _any(entry, low) else max(entry, low)
    return entry if high is None else _smaller(entry, high) if _any(entry, high) else min(entry, high)


def _any(*entries: Any) -> bool:
    return any(isinstance(entry, Unknown) for entry in entries)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


BY_ENTRY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (torch.add, operator.add),
    "sub": (torch.sub, operator.sub),
    "rsub": (torch.rsub, lambda first, second: second - first),
    "mul": (torch.mul, operator.mul),
    "div": (torch.div, _divided),
    "neg": (torch.neg, operator.neg),
    "reciprocal": (torch.reciprocal, lambda entry: 1 / entry),
    "pow": (torch.pow, operator.pow),
    "log": (torch.log, lambda entry: entry.log()),
    "log1p": (torch.log1p, lambda entry: (entry + 1).log()),
    "exp": (torch.exp, lambda entry: entry.exp()),
    "abs": (torch.abs, lambda entry: -entry if entry < 0 else entry),
    "sign": (torch.sign, lambda entry: entry.sign()),
    "relu": (torch.relu, lambda entry: _larger(entry, 0)),
    "maximum": (torch.maximum, _larger),
    "minimum": (torch.minimum, _smaller),
    "fmax": (torch.fmax, _larger),
    "fmin": (torch.fmin, _smaller),
    "clamp": (torch.clamp, _clamped),
    "clamp_min": (torch.clamp_min, _larger),
    "clamp_max": (torch.clamp_max, _smaller),
    "lt": (torch.lt, operator.lt),
    "le": (torch.le, operator.le),
    "gt": (torch.gt, operator.gt),
    "ge": (torch.ge, operator.ge),
    "eq": (torch.eq, operator.eq),
    "ne": (torch.ne, operator.ne),
    "isnan": (torch.isnan, lambda entry: False),
    "isinf": (torch.isinf, lambda entry: False),
    "nan_to_num": (torch.nan_to_num, lambda entry, *_: entry),
    "logical_not": (torch.logical_not, operator.not_),
}
"""For each operation: its result where no entry is random, and the operation on one set of entries."""

MOVES = _names(
    "alias as_strided cat clone constant_pad_nd copy_ detach diagonal expand fill_ flip gather index index_copy "
    "index_copy_ index_fill index_fill_ index_put index_put_ index_select lift lift_fresh masked_fill masked_fill_ "
    "masked_scatter masked_scatter_ masked_select movedim narrow permute repeat reshape resize_ roll rot90 scatter "
    "scatter_ select select_scatter set_ slice slice_scatter split split_with_sizes squeeze squeeze_ stack t t_ take "
    "to transpose transpose_ tril triu unbind unfold unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ view "
    "where zero_ _reshape_alias _reshape_copy _unsafe_view"
)
"""Operations that move entries and do not compute with them."""

KEEPS = _names(
    "alias as_strided cat clone copy_ detach expand flip gather index index_select lift lift_fresh narrow permute "
    "repeat reshape roll select slice split split_with_sizes squeeze squeeze_ stack t transpose unbind unsqueeze "
    "unsqueeze_ view where _reshape_alias _unsafe_view"
)
"""Operations that move indices and do not look at them."""

SHAPES = _names(
    "empty_like empty_strided full_like is_same_size new_empty new_empty_strided new_full new_ones new_zeros ones_like "
    "sym_numel sym_size sym_stride zeros_like"
)
"""Operations that read the shape of a tensor only."""
