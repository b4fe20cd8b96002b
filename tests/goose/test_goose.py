"""Two-source trees and the formulas of Goose against brute force, exact in Fractions, and other searches."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spectheory import Acceptance, Tree, best_tree, goose
from spectheory.core.machine import compiled
from spectheory.goose.two_source import Siblings, sibling_rule
from tests.helpers import refuses
from tests.search.test_search import Forest, forests

fixed = settings(derandomize=True, max_examples=60)
close = {"rel": 1e-12, "abs": 0}
rates = st.one_of(st.floats(0, 1), st.floats(0.05, 0.5), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
both: Any = st.sampled_from(["sequential", "exclusive"])


@cache
def spines(nodes: int) -> list[tuple[Any, Forest]]:
    """All trees of `nodes` nodes below a spine node: (the tree below its spine token or None, its branches)."""
    bare: list[tuple[Any, Forest]] = [(None, branches) for branches in forests(nodes)]
    return bare + [(s, b) for size in range(nodes) for s in spines(size) for b in forests(nodes - 1 - size)]


def branches_worth(branches: Forest, p: float, siblings: str, depth: int) -> float:
    total = 0.0
    for j, below in enumerate(branches):
        rate = p * (1 - p) ** j if siblings == "sequential" else p * ((j + 1) * p <= 1 + 1e-9)
        total += rate * (1 + branches_worth(below, p, siblings, depth - 1)) if depth else 0.0
    return total


def spine_worth(node: tuple[Any, Forest], s: float, p: float, siblings: str, depth: int) -> float:
    spine, branches = node
    on = s * (1 + spine_worth(spine, s, p, siblings, depth)) if spine else 0.0
    return on + (1 - s) * branches_worth(branches, p, siblings, depth)


@fixed
@given(p_spine=rates, p_branch=rates, budget=st.integers(0, 5), siblings=both, depth=st.integers(0, 6))
@example(p_spine=0.1, p_branch=0.6, budget=5, siblings="sequential", depth=6)
@example(p_spine=0.3, p_branch=0.25, budget=5, siblings="exclusive", depth=1)
@example(p_spine=0.05, p_branch=1.0, budget=5, siblings="sequential", depth=3)
def test_optimal_tree_is_the_best_of_all_trees_of_two_sources(
    p_spine: float, p_branch: float, budget: int, siblings: Siblings, depth: int
) -> None:
    """Among all trees with and without spine tokens, for p_spine above and below p_branch."""
    found = goose.optimal_tree(p_spine, p_branch, budget, siblings=siblings, branch_depth=depth)
    worths = (spine_worth(t, p_spine, p_branch, siblings, depth) for n in range(budget + 1) for t in spines(n))
    assert found.block_efficiency == pytest.approx(1 + max(worths), **close)
    assert found.tree.budget <= budget


@fixed
@given(p_spine=rates, p_branch=rates, budget=st.integers(0, 150), siblings=both, depth=st.integers(0, 4))
@example(p_spine=0.1, p_branch=0.9, budget=150, siblings="sequential", depth=3)
def test_the_block_efficiency_of_the_optimal_tree_is_the_sum_over_its_nodes(
    p_spine: float, p_branch: float, budget: int, siblings: Siblings, depth: int
) -> None:
    found = goose.optimal_tree(p_spine, p_branch, budget, siblings=siblings, branch_depth=depth)
    again = goose.SpineTree.valued(found.tree, found.is_spine, p_spine, p_branch, siblings=siblings)
    assert again.block_efficiency == pytest.approx(found.block_efficiency, **close)
    assert (found.tree.rank[found.is_spine] == 0).all()
    below = found.tree.depth.copy()
    for node in range(1, len(below)):
        below[node] = 0 if found.is_spine[node] else below[found.tree.parent[node]] + 1
    assert below.max() <= depth


@fixed
@given(p=rates, budget=st.integers(1, 60))
@example(p=0.3, budget=60)
def test_one_source_is_the_search_by_rank(p: float, budget: int) -> None:
    """p_spine = p_branch, or no spine at all, make every node's children p (1 - p)^j: Sequoia's frame."""
    by_rank = best_tree(Acceptance.by_rank(p * (1 - p) ** np.arange(budget)), budget)
    best = goose.SpineTree.valued(by_rank, [True] + [False] * by_rank.budget, 0, p).block_efficiency
    assert goose.optimal_tree(p, p, budget).block_efficiency == pytest.approx(best, **close)
    assert goose.optimal_tree(0, p, budget).block_efficiency == pytest.approx(best, **close)
    if p > 0:
        most = min(budget, int(1 / p))
        even = Acceptance.by_rank([p] * most)
        best = goose.SpineTree.valued(
            tree := best_tree(even, budget), [True] + [False] * tree.budget, 0, p, siblings="exclusive"
        ).block_efficiency
        assert goose.optimal_tree(0, p, budget, siblings="exclusive").block_efficiency == pytest.approx(best, **close)


@pytest.mark.parametrize(("p_spine", "p_branch"), [(0.7, 0.2), (0.4, 0.15), (0.1, 0.6), (1.0, 0.5), (0.0, 1.0)])
@pytest.mark.parametrize("siblings", ["sequential", "exclusive"])
@pytest.mark.parametrize("limit", [0, 2, 500])
def test_the_compiled_search_does_what_the_plain_one_does(
    p_spine: float, p_branch: float, siblings: Siblings, limit: int
) -> None:
    again, most = sibling_rule(p_branch, siblings)
    arguments = (p_spine, p_branch, again, most, 500, limit)
    for one, other in zip(goose.optimal.take(*arguments), compiled(goose.optimal.take)(*arguments), strict=True):
        np.testing.assert_array_equal(one, other)


def test_limits_of_the_optimum() -> None:
    assert goose.optimal_tree(0.5, 0.5, 0).block_efficiency == 1
    assert goose.optimal_tree(0.5, 0.5, 0).is_spine.tolist() == [True]
    one = goose.optimal_tree(0.3, 0.2, 1)
    assert (one.tree, one.is_spine.tolist(), one.block_efficiency) == (Tree.chain(1), [True, True], 1.3)
    branch = goose.optimal_tree(0.1, 0.6, 1)
    assert branch.is_spine.tolist() == [True, False]
    assert branch.block_efficiency == pytest.approx(1.54)
    assert goose.optimal_tree(1, 0.5, 9).tree == Tree.chain(9)
    assert goose.optimal_tree(0, 1, 9).block_efficiency == 10
    assert goose.optimal_tree(0, 1, 9).is_spine.sum() == 1
    assert goose.optimal_tree(0, 0, 9).tree == Tree.chain(0)
    assert goose.optimal_tree(0.5, 0, 9).tree == Tree.chain(9)
    assert goose.optimal_tree(0.5, 0.9, 9, branch_depth=0).tree == Tree.chain(9)
    even = goose.optimal_tree(0, 0.25, 20, siblings="exclusive")
    assert Tree.from_paths(even.tree.to_paths()) == Tree.k_ary(4, 2)
    assert goose.optimal_tree(0, 0.1, 110, siblings="exclusive").tree.rank.max() == 9


def test_algorithm_1() -> None:
    small = goose.spine_tree(0.5, 0.3, 10, 3, spine_ratio=0.3, top_k=2)
    assert small.is_spine.tolist() == [True] * 4 + [False] * 7
    assert small.tree.parent.tolist() == [-1, 0, 1, 2, 0, 0, 1, 1, 2, 3, 4]
    best = goose.optimal_tree(0.5, 0.3, 60).block_efficiency
    yields = [goose.spine_tree(0.5, 0.3, 60, match).block_efficiency for match in range(10)]
    assert max(yields) <= best
    assert yields[7] == pytest.approx(3.11247, abs=1e-5)
    assert yields[8] == pytest.approx(sum(0.5**k for k in range(9)))
    assert yields[8] < goose.optimal_tree(0, 0.3, 60).block_efficiency == pytest.approx(2.98872, abs=1e-5)
    assert goose.spine_tree(0.5, 0.3, 60, 30).tree == Tree.chain(20)
    assert goose.spine_tree(0.5, 0.3, 60, 30, bypass_length=None).is_spine.sum() == 21
    assert goose.spine_tree(0.5, 0.3, 0, 5).tree == Tree.chain(0)
    assert goose.spine_tree(0.5, 0.009, 60, 5).tree == Tree.chain(5)
    assert goose.spine_tree(0.5, 0.3, 60, 5, branch_depth=0).tree == Tree.chain(5)


def test_rates_above_a_third_by_rounding_leave_room_for_three() -> None:
    third = 1 / 3 + 1e-10
    assert int(1 / third) == 2
    assert sibling_rule(third, "exclusive") == (1.0, 3)
    assert goose.optimal_tree(0, third, 3, siblings="exclusive").block_efficiency == pytest.approx(2)


@fixed
@given(p_spine=rates, p_branch=rates, budget=st.integers(0, 60), match=st.integers(0, 30), siblings=both)
def test_algorithm_1_is_no_better_than_the_optimum(
    p_spine: float, p_branch: float, budget: int, match: int, siblings: Siblings
) -> None:
    made = goose.spine_tree(p_spine, p_branch, budget, match, siblings=siblings)
    best = goose.optimal_tree(p_spine if match else 0, p_branch, budget, siblings=siblings, branch_depth=6)
    assert made.tree.budget <= budget
    assert made.block_efficiency <= best.block_efficiency * (1 + 1e-12)


def test_bad_arguments_are_named() -> None:
    refuses(r"p_spine must be a probability between 0 and 1, got 1\.5", goose.optimal_tree, 1.5, 0.1, 3)
    refuses("budget must be between 0 and .*, got -1", goose.optimal_tree, 0.5, 0.1, -1)
    refuses("siblings must be \"sequential\" or .*'iid'", goose.optimal_tree, 0.5, 0.1, 3, siblings="iid")
    refuses("widths must have one .* spine_length=2 .*, got 1 entries", goose.spine_bound, 0.5, 0.1, 2, [1], 1)
    refuses("widths must be a sequence of whole numbers, got None", goose.spine_bound, 0.5, 0.1, 2, None, 1)
    refuses("is_spine must have one entry", goose.SpineTree.valued, Tree([-1, 0, 0]), [True], 0.5, 0.1)
    refuses("is_spine must mark a chain", goose.SpineTree.valued, Tree([-1, 0, 0]), [True] * 3, 0.5, 0.1)
    three, marks = Tree([-1, 0, 0, 0]), [True, True, False, False]
    message = r"node 0 must have at most 1 exclusive branches, because p_branch=0\.6"
    refuses(message, goose.SpineTree.valued, three, marks, 0.5, 0.6, siblings="exclusive")


# The bound, the allocation and isotropic yields


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
