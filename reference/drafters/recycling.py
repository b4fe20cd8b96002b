"""Token recycling (TR): a static tree filled with probable successors from earlier forwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.drafters.adjacency import DenseTable, harvest_order
from reference.drafters.drafter import Drafter, DrafterKind, Drafting, require_width, undrawn
from reference.drafters.static import pruned
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, Tree


def by_child_counts(*levels: tuple[int, ...]) -> Tree:
    """The tree in which each level lists the nodes' numbers of children, from left to right; missing numbers are 0."""
    parent, first = [-1], 0
    for counts in levels:
        above, first = first, len(parent)
        for node, count in enumerate(counts, start=above):
            parent += [node] * count
    return Tree(parent)


PUBLISHED_TREE = by_child_counts(
    (8,),
    (8, 4, 3, 2, 1, 1, 1, 1),
    (8, 3, 2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1),
    (5, 2, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1),
    (3, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1),
    (2, 0, 0, 1),
)
"""The tree of the source, version 2.2.2: 80 nodes, depth 6. Nodes with low ranks on their path have more children."""


@dataclass(frozen=True)
class TokenRecycling(Drafter):
    """Drafts the same tree in every cycle; the children of a node are the most probable successors of its token.

    Attributes:
        tree: shape of the drafts. For each token, as many successors are stored as the widest node has children.

    Source: Turning Trash into Treasure (Luo et al., 2025). Here unknown tokens have the successors 0 to k - 1, not
    zeros, and each text starts with a new table; the source keeps its table from text to text.
    """

    tree: Tree = PUBLISHED_TREE

    def start(self, pair: Pair, sampling: Sampling) -> RecyclingDrafting:
        widest = require_width(self.tree, pair)
        return RecyclingDrafting(self, DenseTable(pair.vocab_size, widest, pair.device), pair.device)


class RecyclingDrafting(Drafting):
    """Drafts one text from a table of successors. `drafted` holds the tokens of the last draft."""

    def __init__(self, settings: TokenRecycling, table: DenseTable, device: torch.device) -> None:
        self.settings = settings
        self.table = table
        self.device = device
        self.root = 0
        self.drafted = torch.empty(0, dtype=torch.long, device=device)
        tree = settings.tree
        nodes = (np.flatnonzero(tree.depth == depth) for depth in range(1, tree.max_depth + 1))
        self.levels = [
            tuple(torch.as_tensor(row, dtype=torch.long, device=device) for row in (u, tree.parent[u], tree.rank[u]))
            for u in nodes
        ]

    def read(self, prompt: list[int], logits: Tensor) -> None:
        self.table.harvest(torch.tensor(prompt, device=self.device), logits)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        self.root = emitted[-1]
        if logits is not None:
            rows = harvest_order(len(logits), path)
            self.table.harvest(self.drafted[rows], logits[rows])

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """Breadth first, one level at a time."""
        tree = self.settings.tree
        tokens = torch.full((tree.budget + 1,), self.root, device=self.device)
        for nodes, parents, ranks in self.levels[:room]:
            tokens[nodes] = self.table.tokens[tokens[parents], ranks]
        draft = undrawn(tree, tokens)
        if room < tree.max_depth:
            draft, _ = pruned(draft, (tree.depth <= room).tolist())
        self.drafted = draft.tokens
        return draft


KIND = DrafterKind.of(TokenRecycling(), "token recycling", TokenRecycling(Tree.k_ary(2, 2)))
