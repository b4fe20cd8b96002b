"""`RowCache`: a KV cache that keeps or drops rows of all layers at once."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import Cache
from transformers.cache_utils import DynamicLayer

FEWEST = 256
"""Number of rows that a new cache has room for, if no other number is given."""


class RowCache(Cache):
    """Keys and values of one sequence, of all layers in one tensor: (2, layers, 1, heads, rows, head size).

    The first `rows` are in use. Rows are written in place, and a full tensor is replaced by one twice as large.
    transformers' own DynamicCache copies every layer at every forward and has to be cut layer by layer. If keys and
    values differ in shape, each has its own tensor.

    Attributes:
        slots: numbers (n,) of the rows that the next n tokens are written to, in a tensor on the device; None for the
            rows after those in use. With `slots` each layer returns all rows that there is room for.
    """

    def __init__(self, layers: int, fewest: int = FEWEST) -> None:
        super().__init__(layers=[_Layer(self, index) for index in range(layers)])
        self.stacks: list[Tensor] = []
        self.rows, self.fewest = 0, fewest
        self.slots: Tensor | None = None

    def extend(self, keys: Tensor, values: Tensor) -> None:
        """Add n rows to all layers, and leave it to each layer to fill them in.

        Args:
            keys: (1, heads, n, head size) the new keys of one layer; they give n and the shapes.
            values: the new values of the same layer.
        """
        self.rows += keys.shape[2]
        if self.stacks and self.rows <= self.stacks[0].shape[4]:
            return
        kinds = [(2, keys)] if keys.shape == values.shape else [(1, keys), (1, values)]
        shapes = [(count, len(self.layers), *states.shape[:2], 0, states.shape[3]) for count, states in kinds]
        empty = [keys.new_empty(shape) for shape in shapes]
        self._widen(self.stacks or empty, max(self.fewest, 2 ** (self.rows - 1).bit_length()))

    def _widen(self, stacks: list[Tensor], room: int) -> None:
        self.stacks = [old.new_zeros((*old.shape[:4], room, old.shape[5])) for old in stacks]
        for wide, narrow in zip(self.stacks, stacks, strict=True):
            wide[:, :, :, :, : narrow.shape[4]] = narrow
        self.keys, self.values = (kind for stack in self.stacks for kind in stack)

    def take_over(self, other: RowCache) -> None:
        """Copy the rows of a smaller cache of the same model, into the tensors that are there already."""
        self.rows = other.rows
        if not self.stacks:
            self._widen(other.stacks, self.fewest)
        for mine, theirs in zip(self.stacks, other.stacks, strict=True):
            mine[:, :, :, :, : self.rows] = theirs[:, :, :, :, : self.rows]

    def keep(self, committed: int, offsets: list[int]) -> None:
        """Keep the first `committed` rows and the rows at `committed + offsets`, which increase; drop all others."""
        for place, offset in enumerate(offsets):
            if place != offset:
                for stack in self.stacks:
                    stack.select(4, committed + place).copy_(stack.select(4, committed + offset))
        self.rows = committed + len(offsets)


class _Layer(DynamicLayer):
    """One layer of the cache. The first layer is updated first, and makes room for all layers."""

    def __init__(self, cache: RowCache, index: int) -> None:
        super().__init__()
        self.cache = cache
        self.index = index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values (1, heads, n, head size), and return all rows of this layer."""
        cache = self.cache
        if self.index == 0 and cache.slots is None:
            cache.extend(key_states, value_states)
        keys, values, end = cache.keys[self.index], cache.values[self.index], cache.rows
        if cache.slots is not None:
            return keys.index_copy_(2, cache.slots, key_states), values.index_copy_(2, cache.slots, value_states)
        start = end - key_states.shape[2]
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        return keys[:, :, :end], values[:, :, :end]

    def get_seq_length(self) -> int:
        """Number of rows in use."""
        return self.cache.rows
