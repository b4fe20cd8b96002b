"""Siblings of the tokens of a text, drawn without replacement, and the compiled loops over them.

Most of the work of replaying sampled trees is here. The same in plain Python, for every rule and in Fractions, is in
`kernels`; tests compare the two.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Shaped

from spectheory.core.machine import compiler
from spectheory.core.tree import Tree
from spectheory.otlp import NSS, RRS, Solver
from spectheory.replay.kernels import LARGEST
from spectheory.replay.text import TargetText

TINY = 1e-300
"""Keeps a quotient finite where its denominator is 0 and its numerator too."""


class Siblings:
    """At each position of a text, the drafts in addition to the text's own token, as many as were asked for so far.

    Those of a narrow node are the first ones of a wide node, so that trees are compared on the same draws.

    Args:
        text: the text, in float64.
        seed: seed of the draws.
    """

    def __init__(self, text: TargetText, seed: list[int]) -> None:
        self.text, self.seed = text, seed
        self._drawn = np.empty((len(text.q), len(text), 0), np.int64)
        self._chances = _chances(text.q, text.tokens, self._drawn)

    def drawn(self, count: int) -> Int[np.ndarray, "depths n count"]:
        """Tokens by depth in the cycle and position; -1 where the draft has no more tokens."""
        text, shape = self.text, self._drawn.shape
        if shape[2] < count:
            columns = [np.random.default_rng([*self.seed, column]).random(shape[:2]) for column in range(count)]
            self._drawn = _siblings(text.q, text.tokens, np.stack(columns, -1))
            self._chances = _chances(text.q, text.tokens, self._drawn)
        return self._drawn

    def chances(self, count: int) -> Shaped[np.ndarray, "depths n places"]:
        """Weight of the text's token at each place among them; see `forced_draws`."""
        self.drawn(count)
        return self._chances

    def edges(self, solver: Solver, k: int, depth: int) -> Shaped[np.ndarray, "n k"]:
        """Edges of NSS, Naive or RRS below nodes with k drafts, see `top_down.edges`."""
        text, chances, q = self.text, self.chances(k - 1)[depth, :, :k], self.text.draft_rows(depth)
        if isinstance(solver, NSS):
            return chances
        if isinstance(solver, RRS):
            return rrs_edges(text.p, q, text.tokens, self._drawn[depth], self._chances[depth], k)
        target, draft, each = text.at_tokens(text.p), text.at_tokens(q), np.arange(len(text))
        edges = chances * np.minimum(1, target / np.maximum(draft, TINY))[:, None] / target[:, None]
        if k > 1:
            lacking = np.maximum(text.p - q, 0)
            first = self._drawn[depth, :, 0]
            rejected = 1 - np.minimum(1, text.p[each, first] / np.maximum(q[each, first], TINY))
            corrected = text.at_tokens(lacking) / np.maximum(lacking.sum(1), TINY)
            edges[:, 1:] = chances[:, 1:] * (rejected * corrected / target)[:, None]
        return edges

    def traversal(self, tree: Tree, perfect: int | None = None) -> Shaped[np.ndarray, "n nodes"]:
        """`passed_by_traversal` of a static tree whose children are drawn without replacement."""
        text, fanout = self.text, np.bincount(tree.parent[1:], minlength=tree.budget + 1)
        chances = self.chances(max(0, int(fanout.max()) - 1))
        sure = -1 if perfect is None else perfect
        return traversal_passed(
            text.p, text.q, text.tokens, self._drawn, chances, tree.parent, tree.rank, tree.depth, fanout, sure
        )


@compiler(cache=True)
def _siblings(q, tokens, uniforms):  # type: ignore[no-untyped-def]
    """Draws without replacement from q without the text's token."""
    depths, n, count = uniforms.shape
    drawn = np.full((depths, n, count), -1, np.int64)
    for depth in range(depths):
        for i in range(n):
            rest = q[depth, i].copy()
            rest[tokens[i]] = 0
            for c in range(count):
                point, edge, found = uniforms[depth, i, c] * rest.sum(), 0.0, -1
                for token in range(len(rest)):
                    if rest[token] > 0:
                        edge += rest[token]
                        found = token
                        if point < edge:
                            break
                if found < 0:
                    break
                drawn[depth, i, c] = found
                rest[found] = 0
    return drawn


@compiler(cache=True)
def _chances(q, tokens, drawn):  # type: ignore[no-untyped-def]
    """The weights of `forced_draws` for draws without replacement; 0 where there is no such place."""
    depths, n, count = drawn.shape
    chances = np.zeros((depths, n, count + 1))
    for depth in range(depths):
        for i in range(n):
            own = q[depth, i, tokens[i]]
            passed, mass = 1.0, 0.0
            for place in range(count + 1):
                left = max(1 - mass, own)
                if left > 0:
                    chances[depth, i, place] = passed * own / left
                if place == count or drawn[depth, i, place] < 0 or left <= 0:
                    break
                passed *= (left - own) / left
                mass += q[depth, i, drawn[depth, i, place]]
    return chances


@compiler(cache=True)
def visited(weight, p, q, siblings, token, passed, own):  # type: ignore[no-untyped-def]
    """For each place of `token` among the siblings: the chance that those before it are rejected, into `passed`, and
    the weight with which it is then visited, into `own`. Both have an entry more than there are siblings.
    """
    target, draft, scale, left = p, q, 1.0, 1.0
    passed[:], own[:] = 0.0, 0.0
    for place in range(len(passed)):
        chance = draft[token] * scale
        passed[place], own[place] = left, 1.0 if weight * target[token] >= chance else weight * target[token] / chance
        if place == len(siblings) or siblings[place] < 0:
            return
        sibling = siblings[place]
        chance = draft[sibling] * scale
        left *= 1 - (1.0 if weight * target[sibling] >= chance else weight * target[sibling] / chance)
        if left <= 0:
            return
        if place == 0:
            target, draft = target.copy(), draft.copy()
        lacking = 0.0
        for t in range(len(target)):
            target[t] = max(0.0, weight * target[t] - draft[t] * scale)
            lacking += target[t]
        if lacking > 0:
            for t in range(len(target)):
                target[t] /= lacking
        total = lacking + (1 - weight)
        weight = lacking / total if total > 0 else 1.0
        scale /= max(1 - chance, 1e-300)
        draft[sibling] = 0


@compiler(cache=True)
def rrs_edges(p, q, tokens, siblings, chances, places):  # type: ignore[no-untyped-def]
    """(n, places) edges of RRS below nodes with so many drafts: traversal verification of a node of weight 1."""
    n = len(chances)
    edges, passed, own = np.zeros((n, places)), np.empty(places), np.empty(places)
    for i in range(n):
        visited(1.0, p[i], q[i], siblings[i, : places - 1], tokens[i], passed, own)
        for place in range(places):
            edges[i, place] = chances[i, place] * passed[place] * own[place] / p[i, tokens[i]]
    return edges


@compiler(cache=True)
def traversal_passed(p, q, tokens, siblings, chances, parent, rank, depth, fanout, perfect):  # type: ignore[no-untyped-def]
    """(n, nodes) `passed_by_traversal` of a static tree whose children are drawn without replacement.

    `parent`, `rank` and `depth` (nodes,) are the tree's, `fanout` its numbers of children, `perfect` is a depth or -1.
    """
    n, nodes = len(tokens), len(parent)
    kept = np.zeros((n, nodes))
    share, weight = np.empty(nodes), np.empty(nodes)
    widest = fanout.max()
    passed, own = np.empty(max(widest, 1)), np.empty(max(widest, 1))
    followed = np.zeros((nodes, max(widest, 1)), np.int64)
    for node in range(1, nodes):
        followed[parent[node], rank[node]] = node
    for start in range(n):
        share[:], weight[:] = 0.0, 0.0
        share[0], weight[0] = 1.0, 1.0
        kept[start, 0] = 1.0
        for node in range(nodes):
            k, position = fanout[node], start + depth[node]
            if k == 0 or share[node] == 0 or position >= n:
                continue
            if depth[node] == perfect:
                child = followed[node, 0]
                share[child], weight[child] = share[node], weight[node]
                kept[start, child] = share[child] * weight[child]
                continue
            at = min(depth[node], len(q) - 1)
            token = tokens[position]
            visited(
                weight[node], p[position], q[at, position], siblings[at, position, : k - 1], token, passed[:k], own[:k]
            )
            for place in range(k):
                child = followed[node, place]
                parted = share[node] * chances[at, position, place] * passed[place] / p[position, token]
                share[child] = min(parted, LARGEST)
                weight[child] = own[place]
                kept[start, child] = share[child] * weight[child]
    return kept
