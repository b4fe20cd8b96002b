"""Attention masks and positions of the nodes of a tree."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer types by number of bytes. The mask is copied as integers, because NumPy has no bfloat16."""


class TreeRows:
    """Attention masks and depths of the nodes of a tree after a text; each row is copied from the parent's row.

    A node attends to the text, its ancestors and itself. Its row has 0 for these and the lowest number of the type
    elsewhere; eager attention and SDPA add it to the attention scores. All rows are in one tensor on the host, after
    `room` columns of zeros for the text, so a forward after a text of any length needs only a view. The last row is
    blank: it is the row of parent -1, for nodes that directly follow the text. The tensor grows with the longest text
    and the largest tree, to nodes x (text + nodes) numbers.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device, self.on_host = dtype, device, device.type == "cpu"
        self.room = self.size = 0
        self.parents: list[int] = []
        self._placed: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._grow(room=256, size=16)

    def add(self, parents: Sequence[int], first: int = 0) -> None:
        """Write the rows of nodes `first`, `first + 1`, ..., whose `parents` are earlier nodes or -1, the text."""
        while first + len(parents) > self.size:
            self._grow(self.room, 2 * self.size)
        self.parents[first:] = parents
        self._placed = {}
        bits, depth = self._bits, self._depth
        for node, parent in enumerate(parents, first):
            bits[node] = bits[parent]
            bits[node, node] = 0
            depth[node] = depth[parent] + 1

    def after(self, committed: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Positions (1, n) and mask (1, 1, n, committed + end) of nodes first..end - 1 after `committed` tokens."""
        while committed > self.room:
            self._grow(2 * self.room, self.size)
        positions = self.depth[:, first:end] + committed
        mask = self.mask[:, :, first:end, self.room - committed : self.room + end]
        return (positions, mask) if self.on_host else (positions.to(self.device), mask.to(self.device))

    def nodes(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Depths (1, n) of nodes first..end - 1 and their mask (n, end) without columns for the text, on the device.

        They are the same two tensors until rows are added.
        """
        if (first, end) not in self._placed:
            depth, mask = self.depth[:, first:end], self.mask[0, 0, first:end, self.room : self.room + end]
            self._placed[first, end] = depth.to(self.device), mask.to(self.device)
        return self._placed[first, end]

    def _grow(self, room: int, size: int) -> None:
        mask = torch.zeros((1, 1, size + 1, room + size), dtype=self.dtype)
        mask[..., room:] = torch.finfo(self.dtype).min
        depth = torch.full((1, size + 1), -1)
        if self.size:
            mask[..., : self.size, room : room + self.size] = self.mask[..., : self.size, self.room :]
            depth[:, : self.size] = self.depth[:, : self.size]
        self.mask, self.depth, self.room, self.size = mask, depth, room, size
        self._bits = mask.view(BITS[mask.element_size()]).numpy()[0, 0, :, room:]
        self._depth = depth.numpy()[0]
