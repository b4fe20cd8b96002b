"""Operations of torch that choose among entries, of which some are random numbers without a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from reference.torch_replay.tags import Tags
from spectheory.core.coins import best


def ranked(tags: Tags, tensor: torch.Tensor, dim: int, count: int, largest: bool) -> torch.Tensor:
    """The indices of the `count` largest or smallest entries along a dimension, in order."""
    moved = tensor.movedim(dim, -1) if tensor.ndim else tensor.reshape(1)
    rows = tags.entries(moved).reshape(-1, moved.shape[-1])
    found = torch.tensor([_ranked(row, count, largest) for row in rows], dtype=torch.int64)
    found = found.reshape(*moved.shape[:-1], count)
    return found.movedim(-1, dim) if tensor.ndim else found.reshape(())


def leading(tags: Tags, tensor: torch.Tensor, dim: int, largest: bool) -> torch.Tensor:
    """The index of the largest or smallest entry along a dimension, with a length of 1 there; drawn when it is read."""
    moved = tensor.movedim(dim, -1) if tensor.ndim else tensor.reshape(1)
    rows = tags.entries(moved).reshape(-1, moved.shape[-1])
    found = torch.tensor([tags.choice(lambda row=row: best(row, largest)) for row in rows])
    found = found.reshape(*moved.shape[:-1], 1)
    return found.movedim(-1, dim) if tensor.ndim else found.reshape(())


def _ranked(row: np.ndarray, count: int, largest: bool) -> list[int]:
    left, found = list(range(len(row))), []
    for _ in range(count):
        found.append(left.pop(best(row[left], largest)))
    return found


def extreme(largest: bool, with_values: bool) -> Callable[..., Any]:
    """`argmax`, `argmin`, `max` or `min` along a dimension or over all entries."""

    def choose(tags: Tags, tensor: torch.Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            flat = tensor.reshape(-1)
            index = ranked(tags, flat, 0, 1, largest) if with_values else leading(tags, flat, 0, largest)
            return flat[index[0]] if with_values else index[0].reshape([1] * tensor.ndim if keepdim else ())
        if not with_values:
            index = leading(tags, tensor, dim, largest)
            return index if keepdim or not tensor.ndim else index.squeeze(dim)
        index = ranked(tags, tensor, dim, 1, largest)
        value = tensor.gather(dim, index) if tensor.ndim else tensor
        if not keepdim and tensor.ndim:
            index, value = index.squeeze(dim), value.squeeze(dim)
        return value, index

    return choose


def extreme_value(largest: bool) -> Callable[..., Any]:
    """`amax` or `amin`."""
    choose = extreme(largest, with_values=True)

    def value(tags: Tags, tensor: torch.Tensor, dim: Any = (), keepdim: bool = False) -> Any:
        dims = [dim] if isinstance(dim, int) else list(dim)
        if not dims:
            return choose(tags, tensor)
        for each in sorted(d % tensor.ndim for d in dims)[::-1]:
            tensor = choose(tags, tensor, each, keepdim)[0]
        return tensor

    return value


def topk(tags: Tags, tensor: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """`topk`; the entries are sorted in any case."""
    index = ranked(tags, tensor, dim, k, largest)
    return tensor.gather(dim, index), index


def sort(tags: Tags, tensor: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """`sort`, stable."""
    index = ranked(tags, tensor, dim, tensor.shape[dim] if tensor.ndim else 1, descending)
    return tensor.gather(dim, index) if tensor.ndim else tensor, index


def argsort(tags: Tags, tensor: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """`argsort`, stable."""
    return sort(tags, tensor, dim, descending)[1]


def searchsorted(
    tags: Tags,
    edges: torch.Tensor,
    values: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """`searchsorted`: how many edges each value lies above."""
    if sorter is not None:
        edges = edges.gather(-1, sorter)
    rows = tags.entries(edges).reshape(-1, edges.shape[-1])
    wanted = tags.entries(values)
    table = wanted.reshape(len(rows), -1)
    is_right = right or side == "right"
    found = [
        [next((i for i, edge in enumerate(row) if (edge > one if is_right else edge >= one)), len(row)) for one in ones]
        for row, ones in zip(rows, table, strict=True)
    ]
    return torch.tensor(found, dtype=torch.int32 if out_int32 else torch.int64).reshape(values.shape)


def bucketize(tags: Tags, values: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> torch.Tensor:
    """`bucketize`."""
    return searchsorted(tags, edges, values, out_int32=out_int32, right=right)


def folded(fold: Callable[..., Any]) -> Callable[..., Any]:
    """The operation `sum` or `prod`, computed by NumPy's function `fold` on an array of Python numbers."""

    def reduce(tags: Tags, tensor: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        axes = tuple([dim] if isinstance(dim, int) else dim or range(tensor.ndim))
        found = fold(tags.entries(tensor), axis=axes, keepdims=keepdim)
        return tags.tensor(found, dtype or tensor.dtype)

    return reduce


def accumulated(accumulate: Callable[..., Any]) -> Callable[..., Any]:
    """The operation `cumsum` or `cumprod`, computed by NumPy's `accumulate` on an array of Python numbers."""

    def run(tags: Tags, tensor: torch.Tensor, dim: int, *, dtype: Any = None) -> Any:
        return tags.tensor(accumulate(tags.entries(tensor), axis=dim), dtype or tensor.dtype)

    return run


SELECTIONS: dict[str, Callable[..., Any]] = {
    "argmax": extreme(largest=True, with_values=False),
    "argmin": extreme(largest=False, with_values=False),
    "max": extreme(largest=True, with_values=True),
    "min": extreme(largest=False, with_values=True),
    "amax": extreme_value(largest=True),
    "amin": extreme_value(largest=False),
    "topk": topk,
    "sort": sort,
    "argsort": argsort,
    "searchsorted": searchsorted,
    "bucketize": bucketize,
    "sum": folded(np.sum),
    "prod": folded(np.prod),
    "cumsum": accumulated(np.cumsum),
    "cumprod": accumulated(np.cumprod),
}
"""The operations that choose, and sums and products, by name."""
