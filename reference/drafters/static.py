"""Drafting with a planned tree: one draft forward per level, which reads the nodes that have children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

import numpy as np
import torch
from torch import Tensor

from reference.candidates import drawn, largest
from reference.drafters.drafter import COMPARED_BUDGET, Drafter, DrafterKind, Drafting, require_width
from reference.drafters.model import ModelDrafting
from reference.host_arrays import Array, numpy_on_host
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, DrawRule, Schedule, Tree, best_tree


@dataclass(frozen=True)
class PlannedTree(Drafter):
    """Drafts the same tree in every cycle: a planned tree, such as Sequoia's, or a chain. A root alone drafts nothing.

    At temperature 0 children are the most probable tokens. Above it they are drawn without replacement, and a node for
    which no token is left is left out. Every rule draws a single child alike, so a chain's rule is `DrawRule.IID`.

    Attributes:
        tree: shape of the drafts.
    """

    tree: Tree

    @cached_property
    def by_depth(self) -> Tree:
        """The tree with its nodes numbered breadth first."""
        return Tree.from_paths(self.tree.to_paths())

    def rule(self, sampling: Sampling) -> DrawRule:
        if sampling.greedy:
            return DrawRule.TOP_K
        return DrawRule.IID if self.tree.is_chain else DrawRule.NO_REPLACEMENT

    @property
    def chains(self) -> bool:
        return self.tree.is_chain

    @property
    def shape(self) -> Tree:
        return self.tree

    def start(self, pair: Pair, sampling: Sampling) -> Drafting:
        if not self.tree.budget:
            return NoDrafting(self.tree, self.rule(sampling))
        require_width(self.tree, pair)
        return StaticDrafting(pair, sampling, self.by_depth, self.rule(sampling))


class NoDrafting(Drafting):
    """Plain decoding: the root alone, without a model."""

    def __init__(self, tree: Tree, rule: DrawRule) -> None:
        self.tree, self.rule, self.root = tree, rule, 0

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """Nothing is drafted from the prompt."""

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        self.root = emitted[-1]

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        return Draft._unchecked(self.tree, [self.root], [None], self.tree.child_lists, self.rule)


@dataclass(frozen=True)
class _Level:
    """The draft forward of one level's P inner nodes (nodes with children), with index arithmetic done beforehand.

    Attributes:
        inner: the inner nodes, (P,).
        children: all nodes of the next level, (n,), whose parents they are.
        places: places of the children among the P x `width` candidates, row after row, (n,).
        first: number of inner nodes before this level, the root not counted; -1 for the level of the root.
        plain: whether the inner nodes attend to everything before them, like tokens of a text.
        gaps: whether an inner node may be missing; its token is then -1.
    """

    inner: Array
    children: Array
    places: Array
    width: int
    first: int
    plain: bool
    gaps: bool


def _levels(tree: Tree, inner: np.ndarray, rule: DrawRule, device: torch.device) -> Iterator[_Level]:
    def indices(values: np.ndarray) -> Array:
        return numpy_on_host(torch.as_tensor(values, device=device))

    ancestors, gaps = tree.ancestor_mask(), False
    for depth in range(tree.max_depth):
        nodes, children = inner[tree.depth[inner] == depth], np.flatnonzero(tree.depth == depth + 1)
        first, width = int(np.searchsorted(inner, nodes[0])), int(tree.rank[children].max()) + 1
        yield _Level(
            inner=indices(nodes),
            children=indices(children),
            places=indices(np.searchsorted(nodes, tree.parent[children]) * width + tree.rank[children]),
            width=width,
            first=first - 1,
            plain=bool(ancestors[np.ix_(nodes, inner[: first + len(nodes)])].all()),
            gaps=gaps,
        )
        gaps = rule is DrawRule.NO_REPLACEMENT and width > 1


class StaticDrafting(ModelDrafting):
    """Drafts one text with one tree, whose nodes are numbered breadth first.

    Attributes:
        levels: draft forwards, one per level.
        offset: cache row of each inner node after the committed text; -1 for the root.
    """

    def __init__(self, pair: Pair, sampling: Sampling, tree: Tree, rule: DrawRule) -> None:
        super().__init__(pair, sampling)
        self.tree, self.rule = tree, rule
        inner = np.unique(self.tree.parent[1:])
        self.levels = list(_levels(tree, inner, rule, self.model.device))
        self.offset = {node: place for place, node in enumerate(inner.tolist(), start=-1)}
        self.q_rows = [self.offset.get(node, len(inner)) + 1 for node in range(self.tree.budget + 1)]
        self.rows = self.model.rows()
        self.rows.add([self.offset[parent] for parent in self.tree.parent[inner[1:]].tolist()])

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        if not self.committed:
            self.pending = emitted
            return
        self.keep([self.offset[node] for node in path if node in self.offset], emitted)

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """Tokens and distributions are valid until the next draft; where no token was left to draw, a token is -1."""
        levels, tree = self.levels[:room], self.tree
        if room < tree.max_depth:
            tree = Tree(tree.parent[tree.depth <= room])
        if levels:
            key = "static", tuple(tree.parent.tolist()), self.rule, self.sampling
            drafted = levels[-1].first + len(levels[-1].inner)
            fill = partial(self._fill, levels, tree.budget + 1)
            tokens, drawn_from = self.model.run(
                key, self.pending, len(self.pending) + drafted, rng, fill, (levels, self.rows)
            )
            self.committed = self.model.length - drafted
        else:
            tokens, drawn_from = torch.tensor(self.pending[-1:]), []
        places = self.q_rows[: tree.budget + 1]
        q = [drawn_from[place] if place < len(drawn_from) else None for place in places]
        return Draft._unchecked(tree, tokens, q, tree.child_lists, self.rule)

    def _fill(
        self, levels: Sequence[_Level], count: int, fed: Tensor, rng: Uniforms | None
    ) -> tuple[Tensor, list[Array]]:
        """The first `count` tokens, level by level, and the distributions that they are drawn from.

        A device finds no token of a chain to draw only if logits are NaN, which the host checks at the end of the
        cycle. Until then the token is 0, because models cannot read -1.
        """
        tokens = torch.zeros(count, dtype=torch.int64, device=self.model.device)
        nodes, drawn_from = numpy_on_host(tokens), []
        nodes[:1] = numpy_on_host(fed)[0, -1:]
        for level in levels:
            logits = self._logits(level, nodes, fed)
            if self.sampling.greedy:
                found = largest(numpy_on_host(logits), level.width)[0]
            else:
                q = numpy_on_host(self.sampling.distribution(logits))
                found = drawn(q, level.width, rng, apart=self.rule is DrawRule.NO_REPLACEMENT)
                if self.rule is DrawRule.IID and not logits.is_cpu:
                    found.clamp_min_(0)
                drawn_from.extend(q)
            nodes[level.children] = found.reshape(-1)[level.places]
        return tokens, drawn_from

    def _logits(self, level: _Level, nodes: Array, fed: Tensor) -> Tensor:
        """Logits (P, V) after the inner nodes of a level; a missing node is read as token 0."""
        if level.first < 0:
            return self.root_logits(fed)
        read = torch.as_tensor(nodes[level.inner][None])
        if level.gaps:
            read = read.clamp_min(0)
        if level.plain:
            return self.model.forward(read)
        return self.model.forward_tree(read, self.committed, self.rows, level.first)


def pruned(draft: Draft, wanted: Sequence[bool]) -> tuple[Draft, list[int]]:
    """Remove nodes that are not `wanted` (n + 1,) and their descendants; return the draft and the nodes kept."""
    parent, number = draft.tree.parent.tolist(), {0: 0}
    for node in range(1, len(parent)):
        if wanted[node] and parent[node] in number:
            number[node] = len(number)
    nodes = list(number)
    tree = Tree([-1, *(number[parent[node]] for node in nodes[1:])])
    draws = tuple(tuple(number[child] for child in draft.draws[node] if child in number) for node in nodes)
    return Draft._unchecked(tree, draft.tokens[nodes], [draft.q[node] for node in nodes], draws, draft.rule), nodes


def full_tree(counts: Sequence[int]) -> Tree:
    """The tree in which each node at depth d has `counts[d]` children."""
    ways = [range(count) for count in counts]
    return Tree.from_paths(path for depth in range(1, len(ways) + 1) for path in product(*ways[:depth]))


def _compared(plan: Schedule | None) -> dict[str, Drafter]:
    if plan is None:
        return {}
    found = {
        "chain of 5": Tree.chain(5),
        "binary tree 2x2x2": full_tree((2, 2, 2)),
        f"best tree of {COMPARED_BUDGET}": best_tree(plan.acceptance, COMPARED_BUDGET),
    }
    if plan.tree.budget and plan.tree not in found.values():
        found[f"planned {plan.answer} of {plan.tree.budget}"] = plan.tree
    return {name: PlannedTree(tree) for name, tree in found.items()}


KIND = DrafterKind(
    compared=lambda sampling, plan: _compared(plan),
    greedy=lambda: map(PlannedTree, (Tree.chain(0), Tree.chain(1), Tree.chain(4), Tree.k_ary(3, 3))),
    small=lambda: map(PlannedTree, (Tree.chain(2), Tree.k_ary(2, 2))),
)
