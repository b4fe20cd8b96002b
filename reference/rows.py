"""A KV cache whose rows can be kept or dropped for all layers at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import DynamicLayer

FEWEST = 256
"""Rows for which there is room at first."""


class RowCache(Cache):
    """Keys and values of one sequence, of all layers in one tensor each: (layers, 1, heads, rows, head size).

    Rows are written in place; where there is no room left, it is doubled. transformers' own DynamicCache copies every
    layer's cache at every forward, and has to be cut layer by layer.
    """

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[_Layer(self, index) for index in range(layers)])
        self.keys = self.values = torch.empty(0)

    def reserve(self, keys: Tensor, values: Tensor, rows: int) -> None:
        """Make room for `rows` rows in all of states (1, heads, n, head size)."""
        if self.keys.ndim > 1 and rows <= self.keys.shape[3]:
            return
        room = max(FEWEST, 2 ** (rows - 1).bit_length())
        self.keys, self.values = (
            _widened(old, (len(self.layers), *new.shape[:2], room, new.shape[3]), new)
            for old, new in ((self.keys, keys), (self.values, values))
        )

    def keep(self, committed: int, offsets: list[int]) -> None:
        """Keep the first `committed` rows and behind them those at `committed + offsets`, increasing; drop the rest."""
        end = committed + len(offsets)
        if offsets != list(range(len(offsets))):
            source = torch.tensor(offsets, device=self.keys.device) + committed
            for states in (self.keys, self.values):
                states[:, :, :, committed:end] = states.index_select(3, source)
        for layer in self.layers:
            layer.rows = end  # type: ignore[union-attr]


def _widened(old: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    wide = like.new_zeros(shape)
    if old.ndim > 1:
        wide[:, :, :, : old.shape[3]] = old
    return wide


class _Layer(DynamicLayer):
    """One layer's view of the cache; `rows` of it hold something."""

    def __init__(self, cache: RowCache, index: int) -> None:
        super().__init__()
        self.cache = cache
        self.index = index
        self.rows = 0

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append states (1, heads, n, head size); all rows of this layer."""
        start, self.rows = self.rows, self.rows + key_states.shape[2]
        self.cache.reserve(key_states, value_states, self.rows)
        keys, values = self.cache.keys[self.index], self.cache.values[self.index]
        keys[:, :, start : self.rows] = key_states
        values[:, :, start : self.rows] = value_states
        return keys[:, :, : self.rows], values[:, :, : self.rows]

    def get_seq_length(self) -> int:
        """Rows that hold something."""
        return self.rows
