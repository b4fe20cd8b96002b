"""Replay of top-down verification: the chance that a text passes through each child of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spectheory.otlp import Solver
from spectheory.core.draft import DrawRule
from spectheory.replay.forced_draws import forced_draws
from spectheory.replay.shape import Shape, State
from spectheory.replay.text import TargetText

Edges = Mapping[tuple[int, int], np.ndarray]
"""For each (place, hits): (n,) the chance that the token of the text is emitted through the child that was the
`place`-th distinct draw and was hit by `hits` draws, divided by its probability under p."""


class EdgeTable:
    """The edges of a text for one solver and draw rule, computed once for each number of drafts.

    One node with k drafts at position i: edge = E[1{token i is drafted as this child} P(token i is emitted)] / p.

    Args:
        text: the text.
        solver: the node solver.
        rule: how drafts are drawn.
        rng: a `numpy.random.Generator`, for the drafts beside the token of the text; one draft alone needs none.
        samples: number of draws of these over which an edge is averaged.
    """

    def __init__(self, text: TargetText, solver: Solver, rule: DrawRule, rng: Any, samples: int = 1) -> None:
        self.text, self.solver, self.rule, self.rng, self.samples = text, solver, rule, rng, samples
        self._known: dict[tuple[int, int], Edges] = {}

    def edges(self, k: int, depth: int) -> Edges:
        """The edges below nodes with k drafts at `depth`."""
        key = k, min(depth, len(self.text.q) - 1)
        if key not in self._known:
            self._known[key] = self._computed(*key)
        return self._known[key]

    def _computed(self, k: int, depth: int) -> Edges:
        text, found = self.text, {}
        rows = text.draft_rows(depth)
        for position, token in enumerate(text.tokens.tolist()):
            p, q = text.p[position], rows[position]
            for _ in range(self.samples):
                for weight, drafts in forced_draws(self.rule, q, k, token, self.rng):
                    emitted = self.solver._distribution(p, q, drafts)[token] / p[token]
                    key = child_of(drafts, token, self.rule)
                    if key not in found:
                        found[key] = text.at_tokens(text.p) * 0
                    found[key][position] += weight * emitted / self.samples
        return found


def child_of(drafts: list[int], token: int, rule: DrawRule) -> tuple[int, int]:
    """(Place among the distinct drafts, number of draws that hit it) of the child through which `token` is emitted."""
    if rule is DrawRule.IID_APART:
        return drafts.index(token), 1
    return list(dict.fromkeys(drafts)).index(token), drafts.count(token)


def kept_top_down(table: EdgeTable, shape: Shape) -> np.ndarray:
    """(n, L + 1) chance that a cycle from each position keeps at least 0..L tokens of the text, given the text.

    The text walks down the tree as a Markov chain: a node at depth d is reached from position i by an edge at i + d.
    """
    n = len(table.text)
    one = table.text.at_tokens(table.text.p) * 0 + 1
    kept, level, depth = [one], {shape.root: one}, 0
    while True:
        below: dict[State, Any] = {}
        for state, reach in level.items():
            k = shape.draws(depth, state)
            for (place, hits), edge in table.edges(k, depth).items() if k else ():
                child = shape.child(state, place, hits)
                share = reach * 0
                share[: n - depth] = reach[: n - depth] * edge[depth:]
                below[child] = below[child] + share if child in below else share
        if not below or depth == n:
            return np.stack(kept, 1)
        kept.append(sum(below.values()))
        level, depth = below, depth + 1
