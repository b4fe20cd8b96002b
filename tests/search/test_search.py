"""Tests of the searches against brute force over all ordered trees, and against the recursion with every split."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spectheory.core.acceptance import Acceptance
from spectheory.core.machine import compiled
from spectheory.core.tree import Tree
from spectheory.search import best_first, best_tree, best_trees, exact, yield_table
from spectheory.yields import block_efficiency, reach

fixed = settings(derandomize=True)
close = {"rel": 1e-12, "abs": 0}

Forest = tuple[Any, ...]
"""The subtrees of the children of a node, in order of rank."""


@cache
def forests(nodes: int) -> list[Forest]:
    """All ordered forests of `nodes` nodes: all trees whose ranks have no gaps."""
    if nodes == 0:
        return [()]
    return [(first, *rest) for size in range(nodes) for first in forests(size) for rest in forests(nodes - 1 - size)]


def height(forest: Forest) -> int:
    return max((1 + height(child) for child in forest), default=0)


def widest(forest: Forest) -> int:
    return max([len(forest), *(widest(child) for child in forest)])


def worth(forest: Forest, table: np.ndarray, depth: int = 0) -> float:
    row = table[min(depth, len(table) - 1)]
    return sum(
        (row[rank] if rank < len(row) else 0.0) * (1 + worth(child, table, depth + 1))
        for rank, child in enumerate(forest)
    )


def brute_force(table: np.ndarray, budget: int, max_depth: int, max_fanout: int | None) -> np.ndarray:
    """(max_depth + 1, budget + 1) best block efficiency of all trees, by the limits of depth and budget."""
    best = np.ones((max_depth + 1, budget + 1))
    for nodes in range(budget + 1):
        for forest in forests(nodes):
            if height(forest) <= max_depth and widest(forest) <= (max_fanout or budget):
                reached = best[height(forest) :, nodes:]
                np.maximum(reached, 1 + worth(forest, table), out=reached)
    return best


def unpruned(table: np.ndarray, budget: int, max_depth: int) -> np.ndarray:
    """(budget + 1,) best block efficiency by the recursion as it is written, with every split evaluated."""
    below = np.zeros(budget + 1)
    for depth in reversed(range(max_depth)):
        later = np.zeros(budget + 1)
        for rate in table[min(depth, len(table) - 1)][::-1]:
            now = np.zeros(budget + 1)
            for m in range(1, budget + 1):
                now[m] = max(0, (rate * (1 + below[:m]) + later[:m][::-1]).max())
            later = now
        below = later
    return 1 + below


def rows(ranks: int) -> st.SearchStrategy[list[float]]:
    rate = st.one_of(st.floats(1e-3, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    return st.lists(rate, min_size=ranks, max_size=ranks)


@st.composite
def tables(draw: st.DrawFn, non_increasing: bool = False, depths: int = 4, ranks: int = 4) -> np.ndarray:
    width = draw(st.integers(1, ranks))
    table = np.array(draw(st.lists(rows(width), min_size=1, max_size=depths)))
    table /= np.maximum(1, table.sum(1, keepdims=True))
    return -np.sort(-table, axis=1) if non_increasing else table


def measured(seed: int, depths: int, ranks: int) -> np.ndarray:
    """Rates like measured ones: they fall with rank and depth, but noise breaks the order."""
    rng = np.random.default_rng(seed)
    table = 0.5 * 0.97 ** np.arange(depths)[:, None] * np.arange(1, ranks + 1.0) ** -1.6
    table *= np.exp(0.4 * rng.standard_normal(table.shape))
    return table / np.maximum(1, table.sum(1, keepdims=True) / 0.95)


limits = st.one_of(st.none(), st.integers(1, 7))


@fixed
@given(table=tables(), budget=st.integers(1, 6), max_depth=limits, max_fanout=limits)
@example(table=np.array([[0.1, 0.8]]), budget=6, max_depth=None, max_fanout=None)
@example(table=np.array([[0.0, 0.0, 0.7, 0.0, 0.2]]), budget=6, max_depth=2, max_fanout=None)
@example(table=np.array([[0.5, 0.5], [0.1, 0.0], [0.0, 1.0]]), budget=6, max_depth=None, max_fanout=2)
def test_best_tree_is_the_best_of_all_trees(
    table: np.ndarray, budget: int, max_depth: int | None, max_fanout: int | None
) -> None:
    acceptance = Acceptance(table)
    tree = best_tree(acceptance, budget, max_depth=max_depth, max_fanout=max_fanout)
    assert tree.budget <= budget
    assert tree.max_depth <= (max_depth or budget)
    assert tree.rank.max() < (max_fanout or budget)
    expected = brute_force(table, budget, max_depth or budget, max_fanout)[-1, -1]
    assert block_efficiency(tree, acceptance) == pytest.approx(expected, **close)


@fixed
@given(table=tables(depths=3), max_fanout=limits)
def test_yield_table_is_brute_force_and_monotone(table: np.ndarray, max_fanout: int | None) -> None:
    found = yield_table(Acceptance(table), 5, max_depth=6, max_fanout=max_fanout)
    assert found.shape == (7, 6)
    np.testing.assert_allclose(found, brute_force(table, 5, 6, max_fanout), rtol=1e-12)
    assert (np.diff(found, axis=0) >= 0).all()
    assert (np.diff(found, axis=1) >= 0).all()


@fixed
@given(table=tables(non_increasing=True), budget=st.integers(1, 40), limit=st.integers(1, 40))
def test_both_searches_agree_where_both_are_exact(table: np.ndarray, budget: int, limit: int) -> None:
    limit = min(limit, budget)
    table = table[:limit]
    acceptance = Acceptance(table)
    parent, value = best_first.grow(table, budget, limit)
    (tree,) = exact.trees(table, [budget], limit)
    best = value.sum()
    assert block_efficiency(Tree(parent), acceptance) == pytest.approx(best, **close)
    assert block_efficiency(tree, acceptance) == pytest.approx(best, **close)
    by_first, by_program = np.ones((limit + 1, budget + 1)), np.ones((limit + 1, budget + 1))
    best_first.fill_yields(table, by_first)
    exact.fill_yields(table, by_program)
    np.testing.assert_allclose(by_first, by_program, rtol=1e-12)
    assert by_first[-1, -1] == pytest.approx(best, **close)


@pytest.mark.parametrize(
    "table",
    [
        measured(0, 5, 8),
        np.random.default_rng(1).permuted(measured(1, 4, 8), axis=1),
        np.array([[0.05, 0.3, 0.02, 0.25, 0.2]]),
        np.array([[0.0, 0.0, 0.0, 0.9]]),
        np.array([[0.25, 0.5]]),
        np.array([[1e-9, 1 - 1e-9]]),
        np.array([[0.0, 0.1, 0.0, 0.2], [0.1, 0.0, 0.0, 0.7], [0.25, 0.25, 0.25, 0.25]]),
        np.array([[1e-6, 0.0]] * 4 + [[0.1, 0.8]]),
    ],
    ids=["measured", "shuffled", "by rank", "zeros first", "lattice", "tiny first", "mixed", "late"],
)
@pytest.mark.parametrize("max_depth", [3, 9, None])
def test_the_walk_over_few_splits_is_exact(table: np.ndarray, max_depth: int | None) -> None:
    budget, acceptance = 60, Acceptance(table)
    expected = unpruned(table, budget, max_depth or budget)
    trees = best_trees(acceptance, budget, max_depth=max_depth)
    np.testing.assert_allclose([block_efficiency(tree, acceptance) for tree in trees], expected, rtol=1e-12)
    assert all(tree.budget <= n for n, tree in enumerate(trees))
    assert max(tree.max_depth for tree in trees) <= (max_depth or budget)
    found = yield_table(acceptance, budget, max_depth=max_depth or budget)
    np.testing.assert_allclose(found[-1], expected, rtol=1e-12)


@fixed
@given(table=tables(non_increasing=True), max_depth=limits, max_fanout=limits)
def test_best_trees_of_falling_rates_are_prefixes(
    table: np.ndarray, max_depth: int | None, max_fanout: int | None
) -> None:
    trees = best_trees(Acceptance(table), 12, max_depth=max_depth, max_fanout=max_fanout)
    assert trees[0] == Tree.chain(0)
    for budget in range(1, 13):
        assert trees[budget] == best_tree(Acceptance(table), budget, max_depth=max_depth, max_fanout=max_fanout)
        assert trees[budget] == Tree(trees[-1].parent[: budget + 1])


@fixed
@given(table=tables(), budget=st.integers(1, 12), max_depth=limits)
def test_the_last_child_of_a_node_has_value(table: np.ndarray, budget: int, max_depth: int | None) -> None:
    acceptance = Acceptance(table)
    tree = best_tree(acceptance, budget, max_depth=max_depth)
    value = reach(tree, acceptance)
    for node in range(tree.budget + 1):
        children = tree.children(node)
        assert len(children) == 0 or value[children[-1]] > 0


def test_a_low_rate_before_a_high_one() -> None:
    acceptance = Acceptance.by_rank([0.1, 0.8])
    assert best_tree(acceptance, 1) == Tree.chain(1)
    assert best_tree(acceptance, 2) == Tree([-1, 0, 0])
    hidden = Acceptance.by_rank([0.4, 0.1, 0.5])
    assert best_tree(hidden, 3) == Tree([-1, 0, 0, 0])
    assert block_efficiency(Tree([-1, 0, 0, 0]), hidden) == pytest.approx(2.0)
    greedy, _ = best_first.grow(hidden.table, 3, 3)
    assert block_efficiency(Tree(greedy), hidden) == pytest.approx(1.66)


def test_zero_rates() -> None:
    assert best_tree(Acceptance.by_rank([0.0, 0.0]), 9) == Tree.chain(0)
    assert best_trees(Acceptance.by_rank([0.0]), 2) == [Tree.chain(0)] * 3
    late = Acceptance.by_rank([0.0, 0.0, 0.5])
    assert best_tree(late, 2) == Tree.chain(0)
    assert best_tree(late, 5) == Tree([-1, 0, 0, 0])
    assert best_tree(late, 6) == Tree([-1, 0, 0, 0, 3, 3, 3])
    assert best_tree(late, 9, max_fanout=2) == Tree.chain(0)
    assert best_tree(Acceptance.by_depth_and_rank([[0.5, 0.0], [0.0, 0.0]]), 9) == Tree.chain(1)
    assert best_tree(Acceptance.by_depth_and_rank([[0.5, 0.5], [0.0, 0.0]]), 9) == Tree([-1, 0, 0])


def test_rates_of_one() -> None:
    assert best_tree(Acceptance.by_rank([1.0]), 300) == Tree.chain(300)
    assert best_tree(Acceptance.by_rank([1.0, 0.0]), 300, max_depth=7) == Tree.chain(7)
    assert block_efficiency(best_tree(Acceptance.by_rank([0.0, 1.0]), 301), Acceptance.by_rank([0.0, 1.0])) == 151


def test_ties_go_to_the_shallower_then_to_the_lower_rank() -> None:
    even = best_tree(Acceptance.by_rank([0.25] * 4), 20)
    assert Tree.from_paths(even.to_paths()) == Tree.k_ary(4, 2)
    assert best_tree(Acceptance.by_rank([0.5, 0.25, 0.25]), 6) == Tree([-1, 0, 0, 0, 1, 2, 3])
    assert best_tree(Acceptance.by_rank([0.25] * 4), 6) == Tree([-1, 0, 0, 0, 0, 1, 2])


def test_a_rate_above_one_by_rounding_goes_to_the_exact_program() -> None:
    table = np.array([[0.6, 0.4], [0.4 / 0.6 - 1e-10, 0.0], [1 + 1e-9, 0.0]])
    tree = best_tree(Acceptance(table), 3)
    assert tree == Tree.chain(3)
    assert block_efficiency(tree, Acceptance(table)) == pytest.approx(brute_force(table, 3, 3, None)[-1, -1], **close)


@pytest.mark.parametrize("seed", range(3))
def test_compiled_best_first_does_what_its_body_does(seed: int) -> None:
    table = -np.sort(-measured(seed, 3, 6), axis=1)
    for budget, limit in [(1, 1), (50, 2), (200, 200)]:
        for plain, fast in zip(
            best_first.grow(table, budget, limit), compiled(best_first.grow)(table, budget, limit), strict=True
        ):
            np.testing.assert_array_equal(plain, fast)
            assert plain.dtype == fast.dtype
    small = best_first.grow_fast(table, 30, 30, passes=1)
    large = best_first.grow_fast(table, 30, 30, passes=best_first.COMPILE_ABOVE)
    np.testing.assert_array_equal(small[0], large[0])


@pytest.mark.parametrize("max_depth", [None, 3, 12])
def test_compiled_program_does_what_its_bodies_do(monkeypatch: pytest.MonkeyPatch, max_depth: int | None) -> None:
    acceptance = Acceptance(np.random.default_rng(5).permuted(measured(5, 3, 5), axis=1))
    fast = best_trees(acceptance, 40, max_depth=max_depth)
    fast_yields = yield_table(acceptance, 40, max_depth=max_depth or 40)
    for name in ("extend_hull", "best_split", "convolve", "fill_row", "fill_stationary", "rebuild"):
        monkeypatch.setattr(exact, name, getattr(exact, name).py_func)
    assert best_trees(acceptance, 40, max_depth=max_depth) == fast
    np.testing.assert_array_equal(yield_table(acceptance, 40, max_depth=max_depth or 40), fast_yields)


def test_yield_table_beyond_the_budget_and_at_depth_zero() -> None:
    for acceptance in (Acceptance.by_rank([0.6, 0.2]), Acceptance.by_rank([0.2, 0.6])):
        assert yield_table(acceptance, 3, max_depth=0).tolist() == [[1, 1, 1, 1]]
        deep = yield_table(acceptance, 3, max_depth=8)
        np.testing.assert_array_equal(deep[3:], np.tile(deep[3], (6, 1)))
        np.testing.assert_array_equal(deep[:4], yield_table(acceptance, 3, max_depth=3))
        best = block_efficiency(best_tree(acceptance, 3), acceptance)
        assert deep[-1, -1] == pytest.approx(best, **close)
