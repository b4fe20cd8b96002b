"""Growing a planned tree with a draft model: one forward a level, as wide as the level's inner nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from reference.cached import CachedModel, additive_mask
from reference.candidates import propose
from spectheory import Tree


@dataclass(frozen=True)
class _Level:
    """The inner nodes of one depth and their children: all index arithmetic of a planned tree, done once."""

    depth: Tensor
    mask: Tensor
    inner: Tensor
    children: Tensor
    parent_row: Tensor
    rank: Tensor
    fanout: int


def _inner(tree: Tree) -> np.ndarray:
    """Nodes with children, level by level: the order in which they enter the draft's cache."""
    inner = np.unique(tree.parent[1:])
    return inner[np.argsort(tree.depth[inner], kind="stable")]


def _levels(tree: Tree, device: torch.device, dtype: torch.dtype) -> list[_Level]:
    ancestors, inner = tree.ancestor_mask(), _inner(tree)
    levels = []
    for depth in range(tree.max_depth):
        nodes = inner[tree.depth[inner] == depth]
        cached = inner[(tree.depth[inner] > 0) & (tree.depth[inner] <= depth)]
        children = np.flatnonzero(tree.depth == depth + 1)
        indices = (nodes, children, np.searchsorted(nodes, tree.parent[children]), tree.rank[children])
        tensors = [torch.as_tensor(index, dtype=torch.long, device=device) for index in indices]
        mask = additive_mask(torch.as_tensor(ancestors[np.ix_(nodes, cached)]), dtype).to(device)
        levels.append(
            _Level(
                depth=torch.full((len(nodes),), depth - 1, device=device),
                mask=mask,
                inner=tensors[0],
                children=tensors[1],
                parent_row=tensors[2],
                rank=tensors[3],
                fanout=int(tree.rank[children].max()) + 1,
            )
        )
    return levels


class TreeDrafter:
    """Fills a planned tree with tokens, cycle after cycle, keeping the draft's cache on the accepted path."""

    def __init__(self, model: CachedModel, tree: Tree, temperature: float) -> None:
        self.model = model
        self.temperature = temperature
        self.size = tree.budget + 1
        self.levels = _levels(tree, model.device, model.model.dtype)
        self.offset = {int(node): row for row, node in enumerate(n for n in _inner(tree) if n > 0)}
        self.row = {int(node): (i, r) for i, level in enumerate(self.levels) for r, node in enumerate(level.inner)}
        self.laws: list[Tensor] = []
        self.committed = 0

    def grow(self, pending: list[int], generator: Generator | None) -> Tensor:
        """Tokens (n + 1,) of all nodes. `pending` are committed tokens that the draft has not seen, the root last."""
        tokens = torch.empty(self.size, dtype=torch.long, device=self.model.device)
        tokens[0] = pending[-1]
        self.laws = []
        if not self.levels:
            return tokens
        logits = self.model.forward(tokens.new_tensor(pending))[-1:]
        self.committed = self.model.length
        for level in self.levels:
            if self.laws:
                logits = self.model.forward_tree(tokens[level.inner], level.depth, level.mask, self.committed)
            proposed, law = propose(logits, level.fanout, self.temperature, generator)
            tokens[level.children] = proposed[level.parent_row, level.rank]
            self.laws.append(law)
        return tokens

    def law(self, node: int) -> Tensor:
        """(V,) the law that the children of an inner node were drawn from, in the last `grow`."""
        level, row = self.row[node]
        return self.laws[level][row]

    def keep(self, path: list[int]) -> int:
        """Keep the accepted nodes that lie in the cache; returns how many at the end of `path` do not."""
        offsets = [self.offset[node] for node in path if node in self.offset]
        self.model.keep(self.committed, offsets)
        return len(path) - len(offsets)
