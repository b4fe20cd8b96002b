"""Token recycling (TR): a static tree filled with probable successors from earlier forwards, and the table of these.

A target forward also returns logits for rejected nodes and for the prompt. Each row predicts the token after some
token in some context, so it is a guess for the next time that this token occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.drafters.drafter import Drafter, DrafterKind, Drafting, require_width, undrawn
from reference.drafters.static import pruned
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, Tree


def harvest_order(nodes: int, path: Sequence[int]) -> list[int]:
    """The nodes of a draft in the order in which their logits are stored: rejected nodes, the root, the `path`.

    Of two rows for one token the later one is kept, and a row from accepted text is the better guess. `nodes` is the
    number of nodes of the draft, the root included.
    """
    accepted = [0, *path]
    return [node for node in range(nodes) if node not in accepted] + accepted


class TwoTierTable:
    """Probable successors of the last two tokens if these have occurred together, else of the last token.

    The table is on the host: one transfer of (n, k) rows per harvest is cheaper than waiting for the device at each
    level of a tree.

    Args:
        k: maximum number of successors that are stored for a context.
        min_score: minimum probability of a successor, by the softmax of the raw logits; others are left out.

    Source: Goose, Section 4.1 and Appendix C.1.
    """

    def __init__(self, k: int = 10, min_score: float = 0.01) -> None:
        self.k = k
        self.min_score = min_score
        self._rows: dict[tuple[int, ...], list[list[float]]] = {}

    def harvest(self, contexts: Sequence[tuple[int, ...]], logits: Tensor) -> None:
        """Store probable successors by rows of logits (n, V); `contexts` has the last two tokens, or one, of each row.

        Of several rows for one context the last one is kept.
        """
        best = logits.topk(min(self.k, logits.shape[1]))
        scores = (best.values - logits.logsumexp(1, keepdim=True)).exp()
        tokens, probabilities = torch.stack([best.indices.double(), scores.double()]).tolist()
        for context, *row in zip(contexts, tokens, probabilities, strict=True):
            self._rows[context[-1:]] = self._rows[context] = row

    def successors(self, *context: int) -> list[tuple[int, float]]:
        """(Token, probability) of the probable successors of `context`, else of its last token, best first; or []."""
        found = self._rows.get(context) or self._rows.get(context[-1:])
        if not found:
            return []
        return [(int(token), chance) for token, chance in zip(*found, strict=True) if chance >= self.min_score]


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
