"""A KV cache whose rows can be kept or dropped for all layers at once."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import Cache
from transformers.cache_utils import DynamicLayer

FEWEST = 256
"""Rows for which there is room at first."""


class RowCache(Cache):
    """Keys and values of one sequence, of all layers in one tensor: (2, layers, 1, heads, rows, head size).

    Rows are written in place; where there is no room left, it is doubled. transformers' own DynamicCache copies every
    layer's cache at every forward, and has to be cut layer by layer. Keys and values of other shapes than each other
    have a tensor each.
    """

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[_Layer(self, index) for index in range(layers)])
        self.stacks: list[Tensor] = []

    def reserve(self, keys: Tensor, values: Tensor, rows: int) -> None:
        """Make room for `rows` rows in all of states (1, heads, n, head size)."""
        before = self.stacks
        if before and rows <= before[0].shape[4]:
            return
        room = max(FEWEST, 2 ** (rows - 1).bit_length())
        kinds = [(2, keys)] if keys.shape == values.shape else [(1, keys), (1, values)]
        self.stacks = [
            states.new_zeros((count, len(self.layers), *states.shape[:2], room, states.shape[3]))
            for count, states in kinds
        ]
        for wide, narrow in zip(self.stacks, before, strict=False):
            wide[:, :, :, :, : narrow.shape[4]] = narrow
        self.keys, self.values = (kind for stack in self.stacks for kind in stack)

    def keep(self, committed: int, offsets: list[int]) -> None:
        """Keep the first `committed` rows and behind them those at `committed + offsets`, increasing; drop the rest."""
        end = committed + len(offsets)
        for place, offset in enumerate(offsets):
            if place != offset:
                for stack in self.stacks:
                    stack.select(4, committed + place).copy_(stack.select(4, committed + offset))
        for layer in self.layers:
            layer.rows = end  # type: ignore[union-attr]


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
