"""Tests of delayed trees against Eq. 3 summed over all paths, and against seconds worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.otlp import NSS, Naive, Solver, SpecInfer
from spectheory.yields import delayed_block_efficiency, delayed_seconds
from tests.helpers import refuses


def rational_distributions(seed: int, size: int) -> np.ndarray:
    """(size, size) Fractions, each row a distribution without zeros."""
    weights = np.random.default_rng(seed).integers(1, 8, (size, size))
    return np.array([[Fraction(int(w), int(row.sum())) for w in row] for row in weights], dtype=object)


P, Q = rational_distributions(1, 3), rational_distributions(2, 3)
WORLD = st.World.markov(P, Q)


def eq_3(solver: Solver, world: st.World, paths: int, length: int, trunk: int) -> Fraction:
    """Eq. 3 as printed: the mean, over all trunks and K-tuples of paths, of the sum of the products over the nodes."""
    total, tokens = Fraction(0), range(len(world.p(())))

    def chance(context: tuple[int, ...], path: tuple[int, ...]) -> Any:
        return prod((world.q((*context, *path[:i]))[t] for i, t in enumerate(path)), start=Fraction(1))

    for stem in product(tokens, repeat=trunk):
        for ends in product(list(product(tokens, repeat=length)), repeat=paths):
            weight = chance((), stem) * prod(chance(stem, end) for end in ends)
            drawn = [(*stem, *end) for end in ends]
            nodes = {row[:depth] for row in drawn for depth in range(trunk + length + 1)}
            for node in nodes:
                reached = weight
                for j, token in enumerate(node):
                    passing = [row[j] for row in drawn if row[:j] == node[:j]]
                    listed = passing if j >= trunk else passing[:1]
                    reached *= solver._distribution(world.p(node[:j]), world.q(node[:j]), listed)[token]
                total += reached
    return total


SHAPES = [(1, 0, 0), (1, 1, 1), (2, 1, 0), (2, 2, 0), (2, 1, 1), (3, 1, 1), (2, 0, 2), (1, 2, 1)]


@pytest.mark.parametrize("solver", [NSS(), Naive(), SpecInfer()], ids=repr)
@pytest.mark.parametrize(("paths", "length", "trunk"), SHAPES)
def test_block_efficiency_is_eq_3(solver: Solver, paths: int, length: int, trunk: int) -> None:
    found = delayed_block_efficiency(solver, WORLD, paths, length, trunk)
    assert found.value == eq_3(solver, WORLD, paths, length, trunk)
    assert found.is_exact
    assert found.standard_error == 0


@pytest.mark.parametrize("solver", [Naive(), SpecInfer()], ids=repr)
def test_the_estimator_agrees(solver: Solver) -> None:
    """2,000 drawn trees; within 4.9 of its own standard errors, which fails with probability 1e-6."""
    exact = float(delayed_block_efficiency(solver, WORLD, 2, 2, 1).value)
    world = st.World.markov(P.astype(float), Q.astype(float))
    found = delayed_block_efficiency(solver, world, 2, 2, 1, samples=2_000, rng=np.random.default_rng(3))
    assert not found.is_exact
    assert found.drafts == 2_000
    assert 0 < found.standard_error < 0.05
    assert abs(found.value - exact) < 4.9 * found.standard_error


def latency(overhead_seconds: float = 0.0) -> st.Latency:
    """Seconds that grow with tokens and with context, differently for target and draft."""
    tokens, contexts = np.array([1, 2, 4, 8, 16]), np.array([0, 100, 200])
    target = 1.0 + 0.1 * tokens + 0.01 * contexts[:, None]
    draft = 0.1 + 0.02 * tokens + 0.003 * contexts[:, None]
    return st.Latency(tokens, contexts, target, draft, overhead_seconds=overhead_seconds)


@pytest.mark.parametrize(("paths", "length", "trunk"), [*SHAPES, (4, 3, 2), (4, 8, 8)])
def test_seconds_are_eq_11_with_the_widths_charged(paths: int, length: int, trunk: int) -> None:
    measured = latency()
    by_hand = sum(0.1 + 0.02 + 0.003 * (50 + j) for j in range(trunk))
    for j in range(length):
        cached = 50 + trunk + (1 + (j - 1) * paths if j else 0)
        by_hand += 0.1 + 0.02 * (paths if j else 1) + 0.003 * cached
    by_hand += 1.0 + 0.1 * (trunk + paths * length + 1) + 0.01 * 50
    assert delayed_seconds(measured, paths, length, trunk, 50) == pytest.approx(by_hand, rel=1e-12)


def test_forwards_read_the_rows_that_a_cache_would_hold() -> None:
    """With a draft whose time depends on the cached rows only, against a cache that is filled forward by forward."""
    rows = np.array([0, 1000])
    only_rows = st.Latency(np.array([1, 64]), rows, np.full((2, 2), 1e-9), np.array([[1e-9] * 2, [1000.0] * 2]))
    for paths, length, trunk in ((2, 3, 1), (4, 2, 0), (1, 5, 2), (3, 1, 2)):
        cached, total = 100, 0
        for width in [1] * (trunk + 1) + [paths] * (length - 1):
            total, cached = total + cached, cached + width
        assert delayed_seconds(only_rows, paths, length, trunk, 100) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 1, 1), "paths must be at least 1, got 0"),
        ((1, -1, 1), "length must be at least 0, got -1"),
        ((1, 1, 0.5), r"trunk must be a whole number, got 0\.5"),
    ],
)
def test_bad_shapes_are_named(shape: Any, message: str) -> None:
    refuses(message, delayed_block_efficiency, Naive(), WORLD, *shape)
    refuses(message, delayed_seconds, latency(), *shape)
