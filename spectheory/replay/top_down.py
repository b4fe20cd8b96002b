"""Replay of top-down verification: the chance that a text passes through each child of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from jaxtyping import Shaped

from spectheory.core.draft import DrawRule
from spectheory.core.random_source import RandomSource
from spectheory.core.tree import Tree
from spectheory.otlp import Solver
from spectheory.replay.forced_draws import forced_draws
from spectheory.replay.shape import Shape, State
from spectheory.replay.text import TargetText

Edges = Mapping[tuple[int, int], np.ndarray]
"""For each (place, hits): (n,) the chance that the token of the text is emitted through the child that was the
`place`-th distinct draw and was hit by `hits` draws, divided by its probability under p."""


def edges(
    text: TargetText, solver: Solver, rule: DrawRule, k: int, rng: RandomSource, *, depth: int = 0, samples: int = 1
) -> Edges:
    """The edges below a node with k drafts, at every position of a text.

    At position i an edge is E[1{token i is drafted as this child} P(token i is emitted)] / p(token i).

    Args:
        text: the text.
        solver: the node solver.
        rule: how drafts are drawn.
        k: number of drafts.
        rng: a `numpy.random.Generator`, or a `Branch`, for the drafts other than the token of the text.
        depth: of the node in the cycle, for drafts whose distribution depends on it.
        samples: number of draws of these drafts over which an edge is averaged.
    """
    found: dict[tuple[int, int], np.ndarray] = {}
    rows = text.draft_rows(depth)
    for position, token in enumerate(text.tokens.tolist()):
        p, q = text.p[position], rows[position]
        for _ in range(samples):
            for weight, drafts in forced_draws(rule, q, k, token, rng):
                child = child_of(drafts, token, rule)
                if child not in found:
                    found[child] = text.at_tokens(text.p) * 0
                emitted = solver._distribution(p, q, drafts)[token] / p[token]
                found[child][position] += weight * emitted / samples
    return found


def child_of(drafts: list[int], token: int, rule: DrawRule) -> tuple[int, int]:
    """(Place among the distinct drafts, number of draws that hit it) of the child through which `token` is emitted."""
    if rule is DrawRule.IID_APART:
        return drafts.index(token), 1
    return list(dict.fromkeys(drafts)).index(token), drafts.count(token)


def kept_top_down(
    text: TargetText, shape: Shape, edges_below: Callable[[int, int], Edges]
) -> Shaped[np.ndarray, "n lengths"]:
    """Chance that a cycle from each position keeps at least 0..L tokens of the text, given the text.

    Args:
        text: the text.
        shape: the tree or the policy.
        edges_below: the edges below nodes with k drafts at a depth, called with k and the depth.
    """
    zero = text.at_tokens(text.p) * 0
    return np.stack([sum(level.values(), start=zero) for level in _levels(text, shape, edges_below)], 1)


def passed_top_down(
    text: TargetText, tree: Tree, shape: Shape, edges_below: Callable[[int, int], Edges]
) -> Shaped[np.ndarray, "n nodes"]:
    """Chance that a cycle from each position keeps each node of a static tree; see `kept_top_down`."""
    passed = np.zeros((len(text), tree.budget + 1), text.p.dtype)
    for level in _levels(text, shape, edges_below):
        for node, reach in level.items():
            passed[:, node] = reach
    return passed


def _levels(
    text: TargetText, shape: Shape, edges_below: Callable[[int, int], Edges]
) -> Iterator[Mapping[State, np.ndarray]]:
    """For each depth the chance, at every position, to reach each state.

    The text walks down the tree as a Markov chain: a node at depth d is reached from position i by an edge at i + d.
    """
    n = len(text)
    level: dict[State, np.ndarray] = {shape.root: text.at_tokens(text.p) * 0 + 1}
    yield level
    for depth in range(n):
        below: dict[State, np.ndarray] = {}
        for state, reach in level.items():
            k = shape.draws(depth, state)
            for (place, hits), edge in edges_below(k, depth).items() if k else ():
                share = reach * 0
                share[: n - depth] = reach[: n - depth] * edge[depth:]
                child = shape.child(state, place, hits)
                below[child] = below[child] + share if child in below else share
        if not below:
            return
        yield below
        level = below
