"""Replay of traversal verification, from the text alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Shaped

from spectheory.core.arrays import Vector, accept_ratio, one_of, without
from spectheory.core.draft import DrawRule
from spectheory.core.random_source import RandomSource
from spectheory.core.tree import Tree
from spectheory.replay.chains import LARGEST
from spectheory.replay.forced_draws import forced_draws
from spectheory.replay.shape import Shape, State
from spectheory.replay.text import TargetText
from spectheory.replay.top_down import child_of
from spectheory.verify.outcome import coin, shortfall


def kept_by_traversal(
    text: TargetText, shape: Shape, rng: RandomSource, samples: int = 1
) -> Shaped[np.ndarray, "n lengths"]:
    """Chance that a cycle from each position keeps at least 0..L tokens of the text, given the text.

    A child that is visited with weight a is kept, itself or something below it, with probability a on average over what
    is drafted below it. So the children before the text's own are rejected with probability 1 - a each, whatever p and
    q are below them, and the text alone decides: its child is visited with the weight that these rejections leave. What
    reaches a node at depth d along the text, times its weight, over p(t_1..t_d), is the chance to keep d tokens.

    Args:
        text: the text.
        shape: the tree or the policy.
        rng: a `numpy.random.Generator`, for the siblings of the text's tokens; a chain needs none.
        samples: number of draws of these over which the chance is averaged.
    """
    kept = []
    for start in range(len(text)):
        masses: list[Any] = []
        for _ in range(samples):
            _add(
                masses,
                [sum(share * weight for _, share, weight in level) for level in _levels(text, shape, start, rng)],
            )
        kept.append([mass / samples for mass in masses])
    width = max(map(len, kept), default=1)
    zero = text.p[:1, :1].sum() * 0
    return np.array([row + [zero] * (width - len(row)) for row in kept])


def passed_by_traversal(
    text: TargetText, tree: Tree, shape: Shape, rng: RandomSource, samples: int = 1, perfect: int | None = None
) -> Shaped[np.ndarray, "n nodes"]:
    """Chance that a cycle from each position keeps each node of a static tree, itself or some below it.

    Args:
        text: the text.
        tree: the tree.
        shape: the tree as states.
        rng: see `kept_by_traversal`.
        samples: see `kept_by_traversal`.
        perfect: depth of the nodes whose first child is always the token of the text; None if there are none.
    """
    passed = np.zeros((len(text), tree.budget + 1), text.p.dtype)
    for start in range(len(text)):
        for _ in range(samples):
            for level in _levels(text, shape, start, rng, perfect):
                for node, share, weight in level:
                    passed[start, node] += share * weight / samples
    return passed


Level = list[tuple[State, Any, Any]]
"""The states at one depth, each with its share, and the weight with which it is visited."""


def _levels(
    text: TargetText, shape: Shape, start: int, rng: RandomSource, perfect: int | None = None
) -> Iterator[Level]:
    """The states that the text visits from one position, for one draw of the siblings, depth by depth."""
    one = one_of(text.p[start])
    level: Level = [(shape.root, one, one)]
    for depth, position in enumerate(range(start, len(text))):
        yield level
        if depth == perfect:
            level = [(shape.child(state, 0, 1), *masses) for state, *masses in level if shape.draws(depth, state)]
        else:
            level = [
                child
                for state, share, weight in level
                for child in _children(text, shape, depth, position, state, share, weight, rng)
            ]
        if not level:
            return
    yield level


def _children(
    text: TargetText, shape: Shape, depth: int, position: int, state: State, share: Any, weight: Any, rng: RandomSource
) -> list[tuple[State, Any, Any]]:
    """(State, share, weight) of the children through which the token at `position` may be kept."""
    k = shape.draws(depth, state)
    if not k:
        return []
    token, p, q, found = int(text.tokens[position]), text.p[position], text.draft_rows(depth)[position], []
    apart = shape.rule is DrawRule.IID_APART
    for chance, drafts in forced_draws(shape.rule, q, k, token, rng):
        siblings = drafts if apart else list(dict.fromkeys(drafts))
        passed, own = _visited(weight, p, q, siblings[: siblings.index(token)], token, apart)
        with np.errstate(over="ignore"):
            parted = min(share * chance * passed / p[token], LARGEST)
        found.append((shape.child(state, *child_of(drafts, token, shape.rule)), parted, own))
    return found


def _visited(weight: Any, p: Vector, q: Vector, before: list[int], token: int, apart: bool) -> tuple[Any, Any]:
    """The chance that all of the siblings `before` are rejected, and the weight with which `token` is then visited."""
    passed = one_of(p)
    for sibling in before:
        passed = passed * (1 - accept_ratio(weight * p[sibling], q[sibling]))
        lacking, p = shortfall(weight, p, q)
        weight = coin(lacking, weight)
        q = q if apart else without(q, sibling)
    return passed, accept_ratio(weight * p[token], q[token])


def _add(total: list[Any], more: list[Any]) -> None:
    """Add `more` to `total`, entry by entry; either may be the longer one."""
    total += [0] * (len(more) - len(total))
    for place, value in enumerate(more):
        total[place] = total[place] + value
