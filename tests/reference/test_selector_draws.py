"""Tests of the shared draws of a selector's labels, by enumeration in rational arithmetic on two tokens."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import spectheory as st
from reference.selector.shared_draws import SharedDraws, Trie
from reference.selector.trees import ActionSpace
from spectheory.core.chance import branches
from spectheory.otlp import NSS, Naive, Solver, SpecInfer
from spectheory.yields import delayed_block_efficiency, delayed_seconds
from tests.enumeration import exact

P = np.array([exact(3, 1), exact(1, 4)])
Q = np.array([exact(1, 2), exact(3, 5)])
SMALL = ActionSpace(paths=3, trunk=1, length=2)


def drawn(space: ActionSpace, rng: Any, draws: int = 1) -> SharedDraws:
    """Shared draws in the world `Q`, in which the last token decides."""
    trie = Trie(0)
    return SharedDraws.drawn(space, draws, trie, lambda first, end: [Q[t] for t in trie.tokens[first:end]], by(rng))


def by(rng: Any) -> Any:
    def children(rows: Sequence[Any], counts: Sequence[int]) -> list[list[int]]:
        return [st.DrawRule.IID.children(q, count, rng) for q, count in zip(rows, counts, strict=True)]

    return children


def rows_of_target(shared: SharedDraws) -> list[Any]:
    return [P[token] for token in shared.trie.tokens]


@pytest.mark.parametrize("solver", [NSS(), Naive(), SpecInfer()], ids=repr)
def test_the_mean_of_each_label_is_the_block_efficiency_of_its_tree(solver: Solver) -> None:
    mean = [Fraction(0)] * len(SMALL.trees)
    for shared, chance in branches(lambda rng: drawn(SMALL, rng)):
        (values,) = shared.expected_tokens(solver, rows_of_target(shared))
        mean = [total + chance * value for total, value in zip(mean, values, strict=True)]
    world = st.World.markov(P, Q)
    for tree, value in zip(SMALL.trees, mean, strict=True):
        assert value == delayed_block_efficiency(solver, world, tree.paths, tree.length, tree.trunk).value, tree


def test_seconds_are_those_of_delayed_trees() -> None:
    latency = st.Latency(
        np.array([1, 8]), np.array([0, 100]), np.array([[4.0, 5], [6, 9]]), np.array([[1.0, 2], [1.5, 3]])
    )
    space = ActionSpace(3, 2, 2)
    seconds = space.seconds(latency, np.array([50, 7, 50]))
    assert seconds.shape == (3, len(space.trees))
    for place, tree in enumerate(space.trees):
        for row, context in enumerate((50, 7, 50)):
            expected = delayed_seconds(latency, tree.paths, tree.length, tree.trunk, context)
            assert seconds[row, place] == pytest.approx(expected, rel=1e-12)
