from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs

import spectheory as st
from tests.helpers import refuses

parents = hs.integers(0, 30).flatmap(lambda n: hs.tuples(*(hs.integers(0, u) for u in range(n)))).map(list)


@given(parents)
def test_derived_arrays_are_what_a_walk_finds(inner: list[int]) -> None:
    parent = [-1, *inner]
    tree = st.Tree(parent)
    assert tree.budget == len(inner)
    for node in range(len(parent)):
        path = [node]
        while parent[path[-1]] >= 0:
            path.append(parent[path[-1]])
        children = [u for u in range(1, len(parent)) if parent[u] == node]
        assert tree.depth[node] == len(path) - 1
        assert np.flatnonzero(tree.ancestor_mask()[node]).tolist() == sorted(path)
        assert tree.children(node).tolist() == children
        assert tree.rank[children].tolist() == list(range(len(children)))
    assert tree.max_depth == max(tree.depth)
    assert tree.is_chain == all(parent.count(u) <= 1 for u in range(len(parent)))
    assert tree.level_widths().sum() == len({*inner})


@given(parents)
def test_paths_and_trees_are_two_views(inner: list[int]) -> None:
    tree = st.Tree([-1, *inner])
    again = st.Tree.from_paths(tree.to_paths())
    assert sorted(again.to_paths()) == sorted(tree.to_paths())
    assert st.Tree.from_paths(again.to_paths()) == again
    assert np.all(np.diff(again.depth) >= 0)


def test_the_named_trees() -> None:
    assert st.Tree.from_paths([(0,), (0, 0), (1,)]) == st.Tree([-1, 0, 0, 1])
    assert st.Tree.chain(3) == st.Tree([-1, 0, 1, 2])
    assert st.Tree.chain(0).budget == 0
    assert st.Tree.k_ary(2, 2) == st.Tree([-1, 0, 0, 1, 1, 2, 2])
    assert st.Tree.k_ary(1, 4) == st.Tree.chain(4)
    assert st.Tree.k_ary(3, 0) == st.Tree.chain(0)
    assert st.Tree.k_ary(2, 3).level_widths().tolist() == [1, 2, 4]
    assert len({st.Tree.chain(3), st.Tree.k_ary(1, 3), st.Tree.k_ary(3, 1)}) == 2


def test_a_tree_does_not_change() -> None:
    given_array = np.array([-1, 0])
    tree = st.Tree(given_array)
    given_array[1] = 7
    assert tree == st.Tree.chain(1)
    with pytest.raises(ValueError, match="read-only"):
        tree.parent[0] = 3


@pytest.mark.parametrize("bad", [[], [0], [-1, 2, 0], [-1, -1], [-1, 1], [-1, 0.5], [[-1, 0]], ["a"]])
def test_a_parent_array_that_is_no_tree_is_refused(bad: list) -> None:
    refuses("parent must be", st.Tree, bad)


def test_paths_that_are_no_tree_are_refused() -> None:
    refuses(r"distinct and not empty, got \(0,\) twice", st.Tree.from_paths, [(0,), (0,)])
    refuses("distinct and not empty", st.Tree.from_paths, [()])
    refuses(r"paths must contain the parent \(0,\) of the path \(0, 0\)", st.Tree.from_paths, [(0, 0)])
    refuses(r"ranks 0, 1, ... without gaps: \(2,\)", st.Tree.from_paths, [(0,), (2,)])
    refuses("ranks 0, 1, ... without gaps", st.Tree.from_paths, [(-1,)])


def test_sizes_beyond_reason_are_refused_before_anything_is_allocated() -> None:
    refuses(r"k_ary\(fanout=10, depth=40\) has more than", st.Tree.k_ary, 10, 40)
    refuses("fanout must be between 1 and 50,000,000, got 0", st.Tree.k_ary, 0, 2)
    refuses("budget of a chain must be between 0 and", st.Tree.chain, -1)
    refuses("budget of a chain must be between 0 and", st.Tree.chain, 10**15)
    refuses("node must be between 0 and 2, got 3", st.Tree.chain(2).children, 3)
