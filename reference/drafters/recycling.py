"""Token recycling (TR): a static tree filled with probable successors from earlier forwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from reference.drafters.adjacency import TwoTierTable, harvest_order
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
        return RecyclingDrafting(self.tree, require_width(self.tree, pair))


class RecyclingDrafting(Drafting):
    """Drafts one text from a table of successors. `drafted` holds the tokens of the last draft."""

    def __init__(self, tree: Tree, widest: int) -> None:
        self.tree, self.table = tree, TwoTierTable(widest, min_score=0.0)
        self.root, self.drafted = 0, [0]

    def read(self, prompt: list[int], logits: Tensor) -> None:
        self.table.harvest([(token,) for token in prompt], logits)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        self.root = emitted[-1]
        if logits is not None:
            rows = harvest_order(len(logits), path)
            self.table.harvest([(self.drafted[node],) for node in rows], logits[rows])

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        tree, tokens = self.tree, [self.root]
        for parent, rank in zip(tree.parent[1:].tolist(), tree.rank[1:].tolist(), strict=True):
            row = self.table.successors(tokens[parent])
            tokens.append(row[rank][0] if row else rank)
        draft = undrawn(tree, np.array(tokens))
        if room < tree.max_depth:
            draft, _ = pruned(draft, (tree.depth <= room).tolist())
        self.drafted = draft.tokens.tolist()
        return draft


KIND = DrafterKind.of(TokenRecycling(), "token recycling", TokenRecycling(Tree.k_ary(2, 2)))
