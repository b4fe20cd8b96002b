"""Operations of torch on tensors whose entries may be random numbers without a value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from reference.torch_replay.draws import GRIDS, refuse_grid
from reference.torch_replay.tags import Tags
from spectheory.core.coins import Unknown, best


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
    entry = entry if low is None else _larger(entry, low)
    if high is None:
        return entry
    return _smaller(entry, high) if isinstance(entry, Unknown) else min(entry, high)


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
    "exp": (torch.exp, lambda entry: entry.exp()),
    "maximum": (torch.maximum, _larger),
    "minimum": (torch.minimum, _smaller),
    "clamp": (torch.clamp, _clamped),
    "clamp_min": (torch.clamp_min, _larger),
    "clamp_max": (torch.clamp_max, _smaller),
    "lt": (torch.lt, operator.lt),
    "le": (torch.le, operator.le),
    "gt": (torch.gt, operator.gt),
    "ge": (torch.ge, operator.ge),
    "eq": (torch.eq, operator.eq),
    "ne": (torch.ne, operator.ne),
}
"""For each operation: its result where no entry is random, and the operation on one set of entries."""


def by_entry(tags: Tags, name: str, args: Any, kwargs: Any) -> torch.Tensor:
    """An operation of `BY_ENTRY` on each entry that is random in one of the arguments, and torch's result elsewhere."""
    native, act = BY_ENTRY[name]
    found = native(*args, **kwargs)
    refuse_grid(found.dtype, "arithmetic with random numbers")
    alpha = kwargs.pop("alpha", 1)
    if kwargs:
        raise TypeError("other keywords, such as rounding_mode, round a random number")
    shape, random = tuple(found.shape), np.zeros(tuple(found.shape), dtype=bool)
    operands: list[Any] = []
    for arg in args:
        is_tensor = isinstance(arg, torch.Tensor)
        if isinstance(arg, float) and args[0].dtype in GRIDS:
            arg = torch.tensor(arg, dtype=args[0].dtype).item()
        operands.append(np.broadcast_to(tags.entries(arg), shape) if is_tensor else arg)
        if is_tensor and (numbers := tags.of(arg)) is not None:
            random |= np.broadcast_to(numbers != 0, shape)
    if alpha != 1:
        scaled = 0 if name == "rsub" else 1
        operands[scaled] = operands[scaled] * alpha
    entries = tags.entries(found)
    for i in zip(*np.nonzero(random), strict=True) if random.ndim else [()]:
        entries[i] = act(*(each[i] if isinstance(each, np.ndarray) else each for each in operands))
    return tags.tensor(entries, found.dtype)


def ranked(tags: Tags, tensor: torch.Tensor, dim: int, count: int, largest: bool) -> torch.Tensor:
    """The indices of the `count` largest or smallest entries along a dimension, in order."""
    rows = tags.entries(tensor.movedim(dim, -1))
    found = np.empty((*rows.shape[:-1], count), np.int64)
    for row in np.ndindex(rows.shape[:-1]):
        left = list(range(rows.shape[-1]))
        found[row] = [left.pop(best(rows[row][left], largest)) for _ in range(count)]
    return torch.from_numpy(found).movedim(-1, dim)


def extreme_index(largest: bool) -> Callable[..., torch.Tensor]:
    """`argmax` or `argmin`, along a dimension or over all entries; an index is drawn when it is read."""

    def choose(tags: Tags, tensor: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
        if dim is None:
            tensor, dim = tensor.reshape(-1), 0
        rows = tags.entries(tensor.movedim(dim, -1))
        found = np.empty((*rows.shape[:-1], 1), np.int64)
        for row in np.ndindex(rows.shape[:-1]):
            found[row] = tags.choice(lambda row=row: best(rows[row], largest))
        index = torch.from_numpy(found).movedim(-1, dim)
        return index if keepdim else index.squeeze(dim)

    return choose


def extreme(largest: bool) -> Callable[..., Any]:
    """`max` or `min`, along a dimension or over all entries."""

    def choose(tags: Tags, tensor: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            flat = tensor.reshape(-1)
            return flat[ranked(tags, flat, 0, 1, largest)[0]]
        index = ranked(tags, tensor, dim, 1, largest)
        value = tensor.gather(dim, index)
        return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))

    return choose


def topk(tags: Tags, tensor: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """`topk`; the entries are sorted in any case."""
    index = ranked(tags, tensor, dim, k, largest)
    return tensor.gather(dim, index), index


def sort(tags: Tags, tensor: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """`sort`, stable."""
    return topk(tags, tensor, tensor.shape[dim], dim, descending)


def searchsorted(
    tags: Tags, edges: torch.Tensor, values: torch.Tensor, *, right: bool = False, side: str | None = None
) -> torch.Tensor:
    """`searchsorted`: how many edges each value lies above."""
    rows, is_right = tags.entries(edges).reshape(-1, edges.shape[-1]), right or side == "right"
    found = [
        [next((i for i, edge in enumerate(row) if (edge > one if is_right else edge >= one)), len(row)) for one in ones]
        for row, ones in zip(rows, tags.entries(values).reshape(len(rows), -1), strict=True)
    ]
    return torch.tensor(found).reshape(values.shape)


SELECTIONS: dict[str, Callable[..., Any]] = {
    "argmax": extreme_index(largest=True),
    "argmin": extreme_index(largest=False),
    "max": extreme(largest=True),
    "min": extreme(largest=False),
    "topk": topk,
    "sort": sort,
    "searchsorted": searchsorted,
}
"""The operations that choose, by name."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEEPS = _names(
    "alias as_strided cat clone copy_ detach expand gather index index_select lift lift_fresh permute repeat reshape "
    "select slice split split_with_sizes squeeze stack t transpose unbind unsqueeze view where _reshape_alias "
    "_unsafe_view"
)
"""Operations that move indices and do not look at them."""

MOVES = KEEPS | _names(
    "constant_pad_nd diagonal fill_ flip index_fill index_fill_ index_put index_put_ masked_fill masked_fill_ "
    "masked_select roll scatter scatter_ slice_scatter select_scatter tril triu unfold zero_"
)
"""Operations that move entries and do not compute with them."""

SHAPES = _names(
    "empty_like empty_strided full_like new_empty new_empty_strided new_full new_ones new_zeros ones_like zeros_like "
    "sym_numel sym_size sym_stride"
)
"""Operations that read the shape of a tensor only."""
