"""A planned tree, filled with tokens: one draft forward a level, as wide as the level's inner nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

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
    """One draft forward of a tree in breadth-first order: all index arithmetic of it, done once.

    Attributes:
        nodes: the inner nodes of this depth.
        inner: their places among the tokens of this depth.
        depth: theirs less 1, positions behind the committed text.
        mask: additive, over what is cached behind that text; None where it hides nothing.
        fanout: most children of one of them.
        children: places of the children among `fanout` candidates for each inner node.
    """

    nodes: list[int]
    inner: Tensor | slice
    depth: Tensor
    mask: Tensor | None
    fanout: int
    children: Tensor | slice


def _levels(tree: Tree, model: CachedModel) -> list[_Level]:
    def places(wanted: np.ndarray, size: int) -> Tensor | slice:
        return slice(None) if len(wanted) == size else torch.as_tensor(wanted, device=model.device)

    ancestors, inner = tree.ancestor_mask(), np.unique(tree.parent[1:])
    levels = []
    for depth in range(tree.max_depth):
        at, below = (np.flatnonzero(tree.depth == d) for d in (depth, depth + 1))
        nodes = inner[tree.depth[inner] == depth]
        attend = ancestors[np.ix_(nodes, inner[(inner > 0) & (tree.depth[inner] <= depth)])]
        fanout = int(tree.rank[below].max()) + 1
        taken = np.searchsorted(nodes, tree.parent[below]) * fanout + tree.rank[below]
        level = _Level(
            nodes=nodes.tolist(),
            inner=places(nodes - at[0], len(at)),
            depth=torch.full((len(nodes),), depth - 1, device=model.device),
            mask=None if attend.all() else model.mask(attend),
            fanout=fanout,
            children=places(taken, len(nodes) * fanout),
        )
        levels.append(level)
    return levels


class StaticDrafting(ModelDrafting):
    """A text drafted with one tree, numbered breadth first. `nodes` are those that the last draft has, None for all."""

    def __init__(self, pair: Pair, sampling: Sampling, tree: Tree, rule: DrawRule) -> None:
        super().__init__(pair, sampling)
        self.tree = Tree.from_paths(tree.to_paths())
        self.rule = rule
        self.levels = _levels(self.tree, self.model)
        self.offset = {node: row for row, node in enumerate(node for level in self.levels[1:] for node in level.nodes)}
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
        by_depth, laws = [torch.tensor(self.pending[-1:], device=self.model.device)], []
        for level in self.levels[:room]:
            logits = self._logits(level, by_depth[-1])
            if self.sampling.greedy:
                drawn = logits.topk(level.fanout).indices if level.fanout > 1 else logits.max(-1).indices
            else:
                laws.append(self.sampling.law(logits))
                drawn = candidates(laws[-1], level.fanout, self.rule, rng)
            by_depth.append(drawn.flatten()[level.children])
        tokens, drawn_from = torch.cat(by_depth), self._by_node(laws)
        tree = self.tree if room >= self.tree.max_depth else Tree(self.tree.parent[: len(tokens)])
        draft = Draft.unchecked(tree, tokens, drawn_from[: len(tokens)], tree.child_lists, self.rule)
        self.nodes = None
        if self.rule is DrawRule.NO_REPLACEMENT and not (possible := tokens >= 0).all():
            draft, self.nodes = pruned(draft, possible.numpy(force=True))
        return draft

    def _by_node(self, laws: list[Tensor]) -> list[Any]:
        """The law at each node of the tree, from those of the levels; None where nothing was drawn."""
        rows: list[Any] = [None] * (self.tree.budget + 1)
        for level, law in zip(self.levels, laws, strict=False):
            for node, row in zip(level.nodes, handed(law), strict=True):
                rows[node] = row
        return rows

    def _logits(self, level: _Level, tokens: Tensor) -> Tensor:
        """(P, V) behind the inner nodes of a level, given the tokens of its depth."""
        if level is self.levels[0]:
            return self.root_logits()
        fed = tokens[level.inner]
        if self.rule is DrawRule.NO_REPLACEMENT:
            fed = fed.clamp(min=0)
        if level.mask is None:
            return self.model.forward(fed)
        return self.model.forward_tree(fed, level.depth + self.committed, pad(level.mask, (self.committed, 0)))


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
