"""A planned tree, filled with tokens: one draft forward a level, as wide as the level's inner nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.candidates import draw_into, largest
from reference.drafters.drafter import Drafter
from reference.drafters.model import ModelDrafting
from reference.handed import Handed, handed
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Tree
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class PlannedTree(Drafter):
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
            raise InputError(f"tree has {widest} children at a node, the vocabulary has {pair.vocab_size} tokens")
        return StaticDrafting(pair, sampling, self.tree, self.rule(sampling))


@dataclass(frozen=True)
class _Level:
    """One draft forward of a tree in breadth-first order: all index arithmetic of it, done once.

    Attributes:
        fed: (1, P) tokens of its nodes in the drafting's memory, where they stand together there; else (n,) that hold
            them.
        chosen: (1, P) their places among those n.
        first: inner nodes before them, the root not counted; -1 for the root.
        plain: whether they attend to all that is before them, as a token of a text does.
        gaps: whether some of them may be missing, with -1 for a token.
        found: (P, k) memory for the candidates below them, the first of each row its children.
    """

    fed: Tensor
    chosen: Tensor | None
    first: int
    plain: bool
    gaps: bool
    found: Handed


def _laid_out(
    tree: Tree, inner: np.ndarray, rule: DrawRule, device: torch.device
) -> tuple[Tensor, list[_Level], Tensor | None]:
    """Memory for the root and behind it the candidates of all levels, the levels, and the places of the nodes there.

    No places are needed where the nodes are all there is.
    """
    expanded = [inner[tree.depth[inner] == depth] for depth in range(tree.max_depth)]
    widths = [int(tree.rank[tree.depth == depth].max()) + 1 for depth in range(1, tree.max_depth + 1)]
    sizes = [1, *(len(nodes) * width for nodes, width in zip(expanded, widths, strict=True))]
    memory = torch.zeros(sum(sizes), dtype=torch.int64, device=device)
    parts, starts, ancestors = memory.split(sizes), np.cumsum([0, *sizes]), tree.ancestor_mask()
    places, levels = np.zeros(tree.budget + 1, np.int64), []
    for depth, (nodes, width) in enumerate(zip(expanded, widths, strict=True)):
        first, chosen = int(np.searchsorted(inner, nodes[0])), places[nodes] - starts[depth]
        together = len(chosen) == chosen[-1] - chosen[0] + 1
        level = _Level(
            fed=parts[depth][None, chosen[0] : chosen[-1] + 1] if together else parts[depth],
            chosen=None if together else torch.as_tensor(chosen[None], device=device),
            first=first - 1,
            plain=bool(ancestors[np.ix_(nodes, inner[: first + len(nodes)])].all()),
            gaps=rule is DrawRule.NO_REPLACEMENT and depth > 0 and widths[depth - 1] > 1,
            found=handed(parts[depth + 1].view(len(nodes), width)),
        )
        levels.append(level)
        below = np.flatnonzero(tree.depth == depth + 1)
        places[below] = starts[depth + 1] + np.searchsorted(nodes, tree.parent[below]) * width + tree.rank[below]
    return memory, levels, None if len(places) == len(memory) else torch.as_tensor(places, device=device)


class StaticDrafting(ModelDrafting):
    """A text drafted with one tree, numbered breadth first.

    Attributes:
        memory: the root and the candidates of all levels, overwritten in every cycle.
        root: the first of them.
        levels: the draft forwards.
        places: of the tree's nodes in the memory; None where they are all.
        nodes: those of the tree that the last draft has; None for all.
    """

    def __init__(self, pair: Pair, sampling: Sampling, tree: Tree, rule: DrawRule) -> None:
        super().__init__(pair, sampling)
        self.tree = Tree.from_paths(tree.to_paths())
        self.rule = rule
        inner = np.unique(self.tree.parent[1:])
        self.memory, self.levels, self.places = _laid_out(self.tree, inner, rule, self.model.device)
        self.root = handed(self.memory[:1])
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
        """See Drafting.grow. The tokens are good until the next draft.

        Where a device finds no token to draw the law was no number, of which the host hears at the end of the cycle:
        until then token 0 stands there, since models take no -1.
        """
        self.root[0], laws = self.pending[-1], []
        for level in self.levels[:room]:
            logits = self._logits(level)
            if self.sampling.greedy:
                level.found[:] = largest(handed(logits), level.found.shape[1])[0]
            else:
                law = handed(self.sampling.law(logits))
                draw_into(level.found, law, rng, apart=self.rule is DrawRule.NO_REPLACEMENT)
                if self.rule is DrawRule.IID and not logits.is_cpu:
                    level.found.clamp_min_(0)
                laws.extend(law)
        tree, tokens = self.tree, self.memory if self.places is None else self.memory.take(self.places)
        if room < tree.max_depth:
            tree = Tree(tree.parent[tree.depth <= room])
            tokens = tokens[: tree.budget + 1]
        q = [laws[row] if row < len(laws) else None for row in self.law_rows[: tree.budget + 1]]
        draft = Draft._unchecked(tree, tokens, q, tree.child_lists, self.rule)
        self.nodes = None
        if self.rule is DrawRule.NO_REPLACEMENT and min(listed := tokens.tolist()) < 0:
            draft, self.nodes = pruned(draft, [token >= 0 for token in listed])
        return draft

    def _logits(self, level: _Level) -> Tensor:
        """(P, V) behind the nodes of a level; behind token 0 for those that are missing."""
        if level.first < 0:
            return self.root_logits(level.fed if len(self.pending) == 1 else self.pending_tokens())
        fed = level.fed if level.chosen is None else level.fed.take(level.chosen)
        if level.gaps:
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
    return Draft._unchecked(tree, draft.tokens[nodes], [draft.q[node] for node in nodes], draws, draft.rule), nodes
