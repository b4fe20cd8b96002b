"""Drafting with a planned tree: one draft forward per level, which reads the nodes that have children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
import torch
from torch import Tensor

from reference.candidates import draw_into, largest
from reference.drafters.drafter import Drafter, require_width
from reference.drafters.kind import DrafterKind, Variant
from reference.drafters.model import ModelDrafting
from reference.host_arrays import Array, numpy_on_host
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Schedule, Tree, evaluate
from spectheory.core.errors import InputError


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
        """See Drafter.rule."""
        if sampling.greedy:
            return DrawRule.TOP_K
        return DrawRule.IID if self.tree.is_chain else DrawRule.NO_REPLACEMENT

    @property
    def family(self) -> str:
        """See Drafter.family."""
        return "chain" if self.tree.is_chain else "static tree"

    @property
    def chains(self) -> bool:
        """See Drafter.chains."""
        return self.tree.is_chain

    def start(self, pair: Pair, sampling: Sampling) -> StaticDrafting:
        """See Drafter.start."""
        require_width(self.tree, pair)
        drafting = StaticDrafting(pair, sampling, self.by_depth, self.rule(sampling))
        if self.tree.max_depth > drafting.deepest:
            raise InputError(
                f"tree is {self.tree.max_depth} deep, the parallel head {pair.names[1]} drafts {drafting.deepest} "
                "tokens: use a shallower tree"
            )
        return drafting


@dataclass(frozen=True)
class _Level:
    """The draft forward of one level's P inner nodes (nodes with children), with index arithmetic done beforehand.

    Attributes:
        fed: view of the inner nodes' tokens, (1, P), if these are contiguous in the drafting's memory; else view of all
            n tokens of the level, (n,).
        chosen: places of the inner nodes among the n tokens, (1, P); None if they are contiguous.
        first: number of inner nodes before this level, the root not counted; -1 for the level of the root.
        plain: whether the inner nodes attend to everything before them, like tokens of a text.
        gaps: whether an inner node may be missing; its token is then -1.
        found: memory for the candidates of their children, (P, k); the children are the first candidates of each row.
    """

    fed: Tensor
    chosen: Tensor | None
    first: int
    plain: bool
    gaps: bool
    found: Array


def _laid_out(
    tree: Tree, inner: np.ndarray, rule: DrawRule, device: torch.device
) -> tuple[Tensor, list[_Level], Tensor | None]:
    """Return memory for the tokens of the root and of all candidates, the levels, and the nodes' places in the memory.

    The places are None if the memory holds the nodes and nothing else.
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
            found=numpy_on_host(parts[depth + 1].view(len(nodes), width)),
        )
        levels.append(level)
        below = np.flatnonzero(tree.depth == depth + 1)
        places[below] = starts[depth + 1] + np.searchsorted(nodes, tree.parent[below]) * width + tree.rank[below]
    return memory, levels, None if len(places) == len(memory) else torch.as_tensor(places, device=device)


class StaticDrafting(ModelDrafting):
    """Drafts one text with one tree, whose nodes are numbered breadth first.

    Attributes:
        memory: tokens of the root and of the candidates of all levels, overwritten in every cycle.
        root: view of the root's token in the memory.
        levels: draft forwards, one per level.
        places: places of the tree's nodes in the memory; None if the memory holds nothing else.
        nodes: nodes of the tree that are in the last draft; None if all are.
    """

    def __init__(self, pair: Pair, sampling: Sampling, tree: Tree, rule: DrawRule) -> None:
        super().__init__(pair, sampling)
        self.tree, self.rule = tree, rule
        inner = np.unique(self.tree.parent[1:])
        self.memory, self.levels, self.places = _laid_out(self.tree, inner, rule, self.model.device)
        self.root = numpy_on_host(self.memory[:1])
        self.offset = {node: place for place, node in enumerate(inner.tolist(), start=-1)}
        self.q_rows = [self.offset.get(node, len(inner)) + 1 for node in range(self.tree.budget + 1)]
        self.rows = self.model.rows()
        self.rows.add([self.offset[parent] for parent in self.tree.parent[inner[1:]].tolist()])
        self.nodes: list[int] | None = None

    @property
    def taps(self) -> tuple[int, ...]:
        """See Drafting.taps; a tree that is the root alone needs no hidden states."""
        return super().taps if self.levels else ()

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read; a tree that is the root alone needs no draft model."""
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
        """See Drafting.grow. The tokens are valid until the next draft.

        A device finds no token to draw only if logits are NaN, which the host checks at the end of the cycle. Until
        then the token is 0, because models cannot read -1.
        """
        self.root[0], drawn_from = self.pending[-1], []
        for level in self.levels[:room]:
            logits = self._logits(level)
            if self.sampling.greedy:
                level.found[:] = largest(numpy_on_host(logits), level.found.shape[1])[0]
            else:
                q = numpy_on_host(self.sampling.distribution(logits))
                draw_into(level.found, q, rng, apart=self.rule is DrawRule.NO_REPLACEMENT)
                if self.rule is DrawRule.IID and not logits.is_cpu:
                    level.found.clamp_min_(0)
                drawn_from.extend(q)
        tree, tokens = self.tree, self.memory if self.places is None else self.memory.take(self.places)
        if room < tree.max_depth:
            tree = Tree(tree.parent[tree.depth <= room])
            tokens = tokens[: tree.budget + 1]
        rows = self.q_rows[: tree.budget + 1]
        q = [drawn_from[row] if row < len(drawn_from) else None for row in rows]
        draft = Draft._unchecked(tree, tokens, q, tree.child_lists, self.rule)
        self.nodes = None
        if self.rule is DrawRule.NO_REPLACEMENT and min(listed := tokens.tolist()) < 0:
            draft, self.nodes = pruned(draft, [token >= 0 for token in listed])
        return draft

    def _logits(self, level: _Level) -> Tensor:
        """Logits (P, V) after the inner nodes of a level; a missing node is read as token 0."""
        if level.first < 0:
            return self.root_logits(level.fed if len(self.pending) == 1 else self.pending_tokens())
        fed = level.fed if level.chosen is None else level.fed.take(level.chosen)
        if level.gaps:
            fed = fed.clamp_min(0)
        if level.plain:
            return self.model.forward(fed)
        return self.model.forward_tree(fed, self.committed, self.rows, level.first)


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


def _in_matrix(planned: Tree) -> Iterator[Variant]:
    for name, family, tree in (
        ("chain of 5", "chain", Tree.chain(5)),
        ("binary tree 2x2x2", "static tree", full_tree((2, 2, 2))),
        (f"planned tree of {planned.budget}", "static tree", planned),
    ):
        yield Variant(name, family, PlannedTree(tree), lambda rates, tree=tree: tree)


def _on_clock(plan: Schedule) -> Iterator[Variant]:
    """Plain decoding, the fastest chain, and what the plan chose, each with its verifier if it was replayed."""
    chain = _chain_plan(plan)
    yield Variant("plain", "plain", PlannedTree(Tree.chain(0)))
    yield planned_variant(chain)
    if plan.answer != "off" and (plan.tree, plan.verifier) != (chain.tree, chain.verifier):
        yield planned_variant(plan)


def _chain_plan(plan: Schedule) -> Schedule:
    """The plan with its fastest chain, or with a chain of 1 token by the rates if none pays."""
    if not plan.chain.tree.budget:
        return evaluate(Tree.chain(1), plan.acceptance, plan.latency, context=plan.context)
    return replace(plan, choice=plan.chain_choice)


def planned_variant(plan: Schedule, chosen: str = "") -> Variant:
    """What a plan drafts, named after its tree, how it was `chosen` if need be, and its verifier of sampled text."""
    drafter = PlannedTree(plan.tree)
    verifier = f", {plan.verifier}" if plan.verifier not in (None, "Greedy") else ""
    name = f"{plan.answer} of {plan.tree.budget}{chosen}{verifier}"
    return Variant(name, drafter.family, drafter, plan=plan)


KIND = DrafterKind(
    matrix=lambda sampling, planned, corpus: _in_matrix(planned),
    clock=lambda plan, corpus: _on_clock(plan),
    greedy=lambda: map(PlannedTree, (Tree.chain(0), Tree.chain(1), Tree.chain(4), Tree.k_ary(3, 3))),
    small=lambda: map(PlannedTree, (Tree.chain(2), Tree.k_ary(2, 2))),
)
