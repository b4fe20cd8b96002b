"""TR, token recycling: a static tree filled from the successors that earlier forwards left behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.drafters.adjacency import DenseTable, harvest_order
from reference.drafters.drafter import Drafter, Drafting
from reference.drafters.static import pruned
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Tree
from spectheory.core.errors import InputError


def by_child_counts(*levels: tuple[int, ...]) -> Tree:
    """The tree whose nodes, level by level and from left to right, have so many children; 0 where a row ends early."""
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
"""80 nodes, 6 deep: the better the ranks down to a node, the more children it has. Version 2.2.2 of the source."""


@dataclass(frozen=True)
class TokenRecycling(Drafter):
    """The same tree in every cycle; a node's children of rank 0, 1, ... are its token's most probable successors.

    Attributes:
        tree: its shape. Its widest node says how many successors of a token are remembered.
        harvest_rejected: learn from nodes that were drafted in vain, too.
        harvest_prefill: learn from the prompt.

    Source: Turning Trash into Treasure (Luo et al., 2025). Rows start as tokens 0..k-1 instead of zeros, and each text
    starts anew; the source carries its table from text to text.
    """

    tree: Tree = PUBLISHED_TREE
    harvest_rejected: bool = True
    harvest_prefill: bool = True

    def rule(self, sampling: Sampling) -> DrawRule:
        """See Drafter.rule; what earlier forwards said fixes all children."""
        return DrawRule.TOP_K

    def start(self, pair: Pair, sampling: Sampling) -> RecyclingDrafting:
        """See Drafter.start."""
        widest = int(self.tree.rank.max()) + 1
        if widest > pair.vocab_size:
            raise InputError(f"tree has {widest} children at a node, the vocabulary has {pair.vocab_size} tokens")
        return RecyclingDrafting(self, DenseTable(pair.vocab_size, widest, pair.device), pair.device)


class RecyclingDrafting(Drafting):
    """A text drafted from its table. `drafted` are the tokens of the last draft, the root's alone before the first."""

    def __init__(self, settings: TokenRecycling, table: DenseTable, device: torch.device) -> None:
        self.settings = settings
        self.table = table
        self.device = device
        self.root = 0
        self.drafted = torch.empty(0, dtype=torch.long, device=device)
        tree = settings.tree
        self.draws = tuple(tuple(tree.children(node).tolist()) for node in range(tree.budget + 1))
        nodes = (np.flatnonzero(tree.depth == depth) for depth in range(1, tree.max_depth + 1))
        self.levels = [
            tuple(torch.as_tensor(row, dtype=torch.long, device=device) for row in (u, tree.parent[u], tree.rank[u]))
            for u in nodes
        ]

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read."""
        if self.settings.harvest_prefill:
            self.table.harvest(torch.tensor(prompt, device=self.device), logits)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit."""
        self.root = emitted[-1]
        if logits is not None:
            rows = harvest_order(len(logits), path, self.settings.harvest_rejected)
            self.table.harvest(self.drafted[rows], logits[rows])

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """See Drafting.grow; breadth first, a level at once."""
        tree = self.settings.tree
        tokens = torch.full((tree.budget + 1,), self.root, device=self.device)
        for nodes, parents, ranks in self.levels[:room]:
            tokens[nodes] = self.table.tokens[tokens[parents], ranks]
        draft = Draft._unchecked(tree, tokens, [None] * len(tokens), self.draws, DrawRule.TOP_K)
        if room < tree.max_depth:
            draft, _ = pruned(draft, (tree.depth <= room).tolist())
        self.drafted = draft.tokens
        return draft
