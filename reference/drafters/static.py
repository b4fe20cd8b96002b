"""A planned tree, filled with tokens: one draft forward a level, as wide as the level's inner nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from reference.cached import CachedModel
from reference.candidates import candidates
from reference.drafters.drafter import Drafter
from reference.drafters.model import ModelDrafting
from reference.models import Pair
from reference.sampling import Sampling, handed
from spectheory import Draft, DrawRule, Tree


@dataclass(frozen=True)
class StaticTree(Drafter):
    """The same tree in every cycle. Sequoia's and every other plan's; a chain, too, and the root alone drafts nothing.

    Greedy drafts are the most probable tokens of each node; sampled ones are drawn without
    replacement (of one child there is no telling), and a node is left out where no token is left to draw.
    """

    tree: Tree

    def rule(self, sampling: Sampling) -> DrawRule:
        """See Drafter.rule."""
        if sampling.greedy:
            return DrawRule.TOP_K
        return DrawRule.IID if self.tree.is_chain else DrawRule.NO_REPLACEMENT

    @property
    def chains(self) -> bool:
        """See Drafter.chains."""
        return self.tree.is_chain

    def start(self, pair: Pair, sampling: Sampling) -> StaticDrafting:
        """See Drafter.start."""
        widest = int(self.tree.rank.max()) + 1
        if widest > pair.vocab_size:
            raise ValueError(f"tree has {widest} children at a node, the vocabulary has {pair.vocab_size} tokens")
        return StaticDrafting(pair, sampling, self.tree, self.rule(sampling))


@dataclass(frozen=True)
class _Level:
    """The inner nodes of one depth and their children: all index arithmetic of a planned tree, done once."""

    depth: Tensor
    mask: Tensor
    nodes: list[int]
    inner: Tensor
    children: Tensor
    parent_row: Tensor
    rank: Tensor
    fanout: int


def _inner(tree: Tree) -> np.ndarray:
    """Nodes with children, level by level: the order in which they enter the draft's cache."""
    inner = np.unique(tree.parent[1:])
    return inner[np.argsort(tree.depth[inner], kind="stable")]


def _levels(tree: Tree, model: CachedModel) -> list[_Level]:
    ancestors, inner = tree.ancestor_mask(), _inner(tree)
    levels = []
    for depth in range(tree.max_depth):
        nodes = inner[tree.depth[inner] == depth]
        cached = inner[(tree.depth[inner] > 0) & (tree.depth[inner] <= depth)]
        children = np.flatnonzero(tree.depth == depth + 1)
        indices = (nodes, children, np.searchsorted(nodes, tree.parent[children]), tree.rank[children])
        tensors = [torch.as_tensor(index, dtype=torch.long, device=model.device) for index in indices]
        mask = model.mask(ancestors[np.ix_(nodes, cached)])
        levels.append(
            _Level(
                depth=torch.full((len(nodes),), depth - 1, device=model.device),
                mask=mask,
                nodes=nodes.tolist(),
                inner=tensors[0],
                children=tensors[1],
                parent_row=tensors[2],
                rank=tensors[3],
                fanout=int(tree.rank[children].max()) + 1,
            )
        )
    return levels


class StaticDrafting(ModelDrafting):
    """A text drafted with one tree. `nodes` are those of the planned tree that the last draft has."""

    def __init__(self, pair: Pair, sampling: Sampling, tree: Tree, rule: DrawRule) -> None:
        super().__init__(pair, sampling)
        self.tree = tree
        self.rule = rule
        self.levels = _levels(tree, self.model)
        self.offset = {int(node): row for row, node in enumerate(n for n in _inner(tree) if n > 0)}
        self.nodes: list[int] | None = None

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read; the root alone needs no draft model."""
        if self.levels:
            super().read(prompt, logits)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit."""
        if not self.committed:
            self.pending = emitted
            return
        planned = path if self.nodes is None else [self.nodes[node] for node in path]
        self.keep([self.offset[node] for node in planned if node in self.offset], emitted)

    def grow(self, room: int, rng: Generator | None) -> Draft:
        """See Drafting.grow."""
        size = self.tree.budget + 1
        tokens = torch.zeros(size, dtype=torch.long, device=self.model.device)
        tokens[0] = self.pending[-1]
        drawn_from: list[Any] = [None] * size
        possible = torch.ones(size, dtype=torch.bool, device=self.model.device)
        for level in self.levels[:room]:
            first = level is self.levels[0]
            logits = self.root_logits() if first else self._forward(tokens[level.inner], level)
            if self.sampling.greedy:
                tokens[level.children] = logits.topk(level.fanout).indices[level.parent_row, level.rank]
                continue
            law = self.sampling.law(logits)
            drawn = candidates(law, level.fanout, self.rule, rng)[level.parent_row, level.rank]
            possible[level.children] = drawn >= 0
            tokens[level.children] = drawn.clamp(min=0)
            for node, row in zip(level.nodes, handed(law), strict=True):
                drawn_from[node] = row
        draft = Draft.unchecked(self.tree, tokens, drawn_from, self.tree.child_lists, self.rule)
        self.nodes = None
        if room >= self.tree.max_depth and (self.sampling.greedy or possible.all()):
            return draft
        draft, self.nodes = pruned(draft, possible.cpu().numpy() & (self.tree.depth <= room))
        return draft

    def _forward(self, tokens: Tensor, level: _Level) -> Tensor:
        return self.model.forward_tree(tokens, level.depth, level.mask, self.committed)


def pruned(draft: Draft, wanted: np.ndarray) -> tuple[Draft, list[int]]:
    """The draft without the nodes that are not `wanted` (n + 1,) and what hangs below them, and the nodes it has."""
    parent, number = draft.tree.parent.tolist(), {0: 0}
    for node in range(1, len(parent)):
        if wanted[node] and parent[node] in number:
            number[node] = len(number)
    nodes = list(number)
    tree = Tree([-1, *(number[parent[node]] for node in nodes[1:])])
    draws = tuple(tuple(number[child] for child in draft.draws[node] if child in number) for node in nodes)
    return Draft.unchecked(tree, draft.tokens[nodes], [draft.q[node] for node in nodes], draws, draft.rule), nodes
