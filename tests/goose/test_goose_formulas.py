"""Tests of the formulas of Goose against brute force in Fractions: the bound, the allocation, isotropic yields."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spectheory import Tree, goose

fixed = settings(deadline=None, derandomize=True, max_examples=60)
close = {"rel": 1e-12, "abs": 0}


def eq_1(s: Fraction, p: Fraction, widths: list[int], depth: int) -> Fraction:
    """Eq. 1 as printed, term by term."""
    extension = sum((p**j for j in range(1, depth)), Fraction(0))
    spine = sum((s**k for k in range(1, len(widths) + 1)), Fraction(0))
    forks = [s ** (k - 1) * (1 - s) * (1 - (1 - p) ** b) * (1 + extension) for k, b in enumerate(widths, start=1)]
    return spine + sum(forks, Fraction(0)) + 1


fractions = st.fractions(0, 1, max_denominator=20)


@fixed
@given(s=fractions, p=fractions, widths=st.lists(st.integers(0, 4), max_size=4), depth=st.integers(1, 5))
def test_the_bound_is_eq_1_and_the_yield_of_its_tree(s: Fraction, p: Fraction, widths: list[int], depth: int) -> None:
    bound = goose.spine_bound(s, p, len(widths), widths, depth)
    assert bound == eq_1(s, p, widths, depth)
    made = goose.tree_of_bound(float(s), float(p), len(widths), widths, depth)
    assert made.block_efficiency == pytest.approx(float(bound), **close)
    assert made.tree.budget == goose.budget_of_bound(len(widths), widths, depth)
    best = goose.optimal_tree(float(s), float(p), made.tree.budget, branch_depth=depth)
    assert best.block_efficiency >= made.block_efficiency * (1 - 1e-12)


def longest_path(tree: Tree, rate: Callable[[int], Fraction]) -> Fraction:
    """1 + the expected depth of the deepest node whose path is accepted, over all indicators of the nodes."""
    total = Fraction(1)
    for indicators in product((0, 1), repeat=tree.budget):
        chance, depth = Fraction(1), {0: 0}
        for node, accepted in enumerate(indicators, start=1):
            chance *= rate(node) if accepted else 1 - rate(node)
            if accepted and int(tree.parent[node]) in depth:
                depth[node] = depth[int(tree.parent[node])] + 1
        total += chance * max(depth.values())
    return total


def test_eq_1_is_not_tight_for_independent_indicators() -> None:
    s, p = Fraction(1, 2), Fraction(1, 3)
    made = goose.tree_of_bound(0.5, 1 / 3, 2, [2, 1], 2)
    longest = longest_path(made.tree, lambda node: s if made.is_spine[node] else p)
    assert longest > goose.spine_bound(s, p, 2, [2, 1], 2)


def test_the_printed_budget_does_not_pay_for_the_printed_yield() -> None:
    printed = goose.spine_bound(0.5, 0.5, 1, [1], 2)
    assert printed > goose.optimal_tree(0.5, 0.5, goose.budget_of_bound(1, [1], 1)).block_efficiency
    assert goose.spine_bound(0.5, 0.25, 0, [], 6) == 1
    assert goose.spine_bound(1, 0.25, 3, [9, 9, 9], 6) == 4
    assert goose.spine_bound(0, 1, 1, [1], 6) == 7
    assert goose.spine_bound(0.9, 1e-12, 1, [1], 1) == pytest.approx(1.9 + 1e-13, rel=1e-15)


def compositions(parts: int, total: int) -> list[tuple[int, ...]]:
    if parts == 0:
        return [()]
    return [(first, *rest) for first in range(total + 1) for rest in compositions(parts - 1, total - first)]


@fixed
@given(s=fractions, p=fractions, length=st.integers(0, 4), branches=st.integers(0, 7))
@example(s=Fraction(1, 2), p=Fraction(1, 2), length=4, branches=7)
def test_allocation_is_the_best_of_all(s: Fraction, p: Fraction, length: int, branches: int) -> None:
    found = goose.allocate(s, p, length, branches)
    every = [found.synergy(widths) for widths in compositions(length, branches)]
    assert found.synergy(found.widths) == max(every)
    assert sum(found.widths) <= branches
    assert list(found.widths) == sorted(found.widths, reverse=True)
    assert found.block_efficiency == goose.spine_bound(s, p, length, found.widths, 1)
    assert sum(found.harmonic) == (branches if length else 0)
    assert found.synergy(found.harmonic) <= found.synergy(found.widths)


@fixed
@given(
    root=st.sampled_from([Fraction(1, 2), Fraction(2, 3), Fraction(3, 4)]),
    powers=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    length=st.integers(1, 5),
    branches=st.integers(0, 9),
)
def test_the_allocation_is_the_clipped_line_by_largest_remainders(
    root: Fraction, powers: tuple[int, int], length: int, branches: int
) -> None:
    """The slope is j / q, so that the line is rational and its remainders compare exactly."""
    j, q = powers
    found, slope = goose.allocate(root**j, 1 - root**q, length, branches), Fraction(j, q)
    levels = [Fraction(branches, used) + (used - 1) * slope / 2 for used in range(1, length + 1)]
    used = max(used for used, level in enumerate(levels, start=1) if level >= (used - 1) * slope)
    line = [max(levels[used - 1] - k * slope, Fraction(0)) for k in range(length)]
    assert sum(line) == branches
    widths = [part.numerator // part.denominator for part in line]
    for k in sorted(range(length), key=lambda k: (widths[k] - line[k], k))[: branches - sum(widths)]:
        widths[k] += 1
    assert found.synergy(widths) == found.synergy(found.widths)
    np.testing.assert_allclose(found.clipped, np.array(line, dtype=float), atol=1e-9)


def test_limits_of_the_allocation() -> None:
    forgotten = goose.allocate(0.5, 0.5, 4, 2)
    assert forgotten.linear.tolist() == [2, 1, 0, -1]
    assert forgotten.clipped.tolist() == [1.5, 0.5, 0, 0]
    assert goose.allocate(1, 0.5, 3, 9).widths == (0, 0, 0)
    assert goose.allocate(0.5, 0, 3, 9).widths == (0, 0, 0)
    assert np.isnan(goose.allocate(0.5, 0, 3, 9).clipped).all()
    assert goose.allocate(0.5, 1, 3, 9).widths == (1, 1, 1)
    nothing = goose.allocate(0, 0.5, 3, 9)
    assert nothing.widths == (9, 0, 0)
    assert nothing.clipped.tolist() == [9, 0, 0]
    assert np.isnan(nothing.linear).all()
    assert goose.allocate(0.5, 0.5, 1, 9).widths == goose.allocate(0.5, 0.5, 1, 9).harmonic == (9,)
    assert goose.harmonic_widths(3, 11) == (6, 3, 2)
