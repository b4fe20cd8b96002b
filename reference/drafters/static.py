"""A planned tree, filled with tokens: one draft forward a level, as wide as the level's inner nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.candidates import candidates, largest
from reference.drafters.drafter import Drafter
from reference.drafters.model import ModelDrafting
from reference.models import Pair
from reference.sampling import Sampling, handed
from reference.uniforms import Uniforms
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
        inner: places of the inner nodes among the tokens of this depth; None where they are all.
        first: inner nodes before them, the root not counted; -1 for the root.
        plain: whether they attend to all that is before them, as a token of a text does.
        fanout: most children of one of them.
        children: places of the children among `fanout` candidates for each inner node; None where they are all.
    """

    inner: Tensor | None
    first: int
    plain: bool
    fanout: int
    children: Tensor | None


def _levels(tree: Tree, inner: np.ndarray, device: torch.device) -> list[_Level]:
    def places(wanted: np.ndarray, size: int) -> Tensor | None:
        return None if len(wanted) == size else torch.as_tensor(wanted, device=device)

    ancestors, levels = tree.ancestor_mask(), []
    for depth in range(tree.max_depth):
        at, below = (np.flatnonzero(tree.depth == d) for d in (depth, depth + 1))
        nodes, before = inner[tree.depth[inner] == depth], int((tree.depth[inner] < depth).sum())
        fanout = int(tree.rank[below].max()) + 1
        taken = np.searchsorted(nodes, tree.parent[below]) * fanout + tree.rank[below]
        level = _Level(
            inner=places(nodes - at[0], len(at)),
            first=before - 1,
            plain=bool(ancestors[np.ix_(nodes, inner[: before + len(nodes)])].all()),
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
        inner = np.unique(self.tree.parent[1:])
        self.levels = _levels(self.tree, inner, self.model.device)
        self.offset = {node: place for place, node in enumerate(inner.tolist(), start=-1)}
        self.law_rows = [self.offset.get(node, len(inner)) + 1 for node in range(self.tree.budget + 1)]
        self.rows = self.model.rows()
        self.rows.hang([self.offset[parent] for parent in self.tree.parent[inner[1:]].tolist()])
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

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """See Drafting.grow."""
        pending, laws = self.pending_tokens(), []
        fed, by_depth = pending, [pending[-1:]]
        for level in self.levels[:room]:
            logits = self._logits(level, fed)
            if self.sampling.greedy:
                drawn, _ = largest(logits, level.fanout)
            else:
                law = self.sampling.law(logits)
                drawn = candidates(law, level.fanout, self.rule, rng)
                laws.extend(handed(law))
            drawn = drawn.reshape(-1)
            fed = drawn if level.children is None else drawn[level.children]
            by_depth.append(fed)
        tokens = torch.cat(by_depth)
        tree = self.tree if room >= self.tree.max_depth else Tree(self.tree.parent[: len(tokens)])
        q = [laws[row] if row < len(laws) else None for row in self.law_rows[: tree.budget + 1]]
        draft = Draft.unchecked(tree, tokens, q, tree.child_lists, self.rule)
        self.nodes = None
        if self.rule is DrawRule.NO_REPLACEMENT and min(found := tokens.tolist()) < 0:
            draft, self.nodes = pruned(draft, [token >= 0 for token in found])
        return draft

    def _logits(self, level: _Level, tokens: Tensor) -> Tensor:
        """(P, V) behind the inner nodes of a level, given the tokens of its depth; for the root, what is pending."""
        if level.first < 0:
            return self.root_logits(tokens)
        fed = tokens if level.inner is None else tokens[level.inner]
        if self.rule is DrawRule.NO_REPLACEMENT:
            fed = fed.clamp_min(0)
        if level.plain:
            return self.model.forward(fed)
        return self.model.forward_tree(fed, self.committed, self.rows, level.first)


def pruned(draft: Draft, wanted: Sequence[bool]) -> tuple[Draft, list[int]]:
    """The draft without the nodes that are not `wanted`, one of n + 1, and what hangs below; and the nodes it has."""
    parent, number = draft.tree.parent.tolist(), {0: 0}
    for node in range(1, len(parent)):
        if wanted[node] and parent[node] in number:
            number[node] = len(number)
    nodes = list(number)
    tree = Tree([-1, *(number[parent[node]] for node in nodes[1:])])
    draws = tuple(tuple(number[child] for child in draft.draws[node] if child in number) for node in nodes)
    return Draft.unchecked(tree, draft.tokens[nodes], [draft.q[node] for node in nodes], draws, draft.rule), nodes
