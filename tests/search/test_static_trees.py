"""Static trees: the best one against all shapes and the planner, and what one drafts and costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as some

import spectheory as st
from spectheory.search import MarkovDraft, RatesDraft, SpecExec, StaticTree, best_static_tree, compare_policies
from tests.plain_searches import CERTAIN, all_trees, budgets, close, drafts, fixed
from tests.search.test_policy_comparison import every_start
from tests.search.test_search import tables


def best_shape(several: list[MarkovDraft], budget: int, max_depth: int) -> float:
    """The highest mean E over all subtrees of the full tree of ranks, none deeper than `max_depth`."""
    tokens = len(several[0].q)
    level, reach = [0], [[1.0] for _ in several]
    last = [[draft.start] for draft in several]
    for node in range((tokens**budget - 1) // (tokens - 1)):
        level += [level[node] + 1] * tokens
        for draft, values, ends in zip(several, reach, last, strict=True):
            ranked = np.argsort(-draft.q[ends[node]], kind="stable")
            ends += ranked.tolist()
            values += (values[node] * draft.q[ends[node]][ranked]).tolist()
    shapes, value = all_trees(tokens, budget), np.mean(reach, axis=0)
    value[0] = 0
    return 1 + value[shapes].sum(1)[np.array(level)[shapes].max(1) <= max_depth].max()


@fixed
@given(draft=drafts(), budget=budgets, max_depth=some.none() | some.integers(1, 6))
@example(CERTAIN, 6, None)
def test_the_best_static_tree_is_the_best_of_all_shapes(draft: MarkovDraft, budget: int, max_depth: int | None) -> None:
    several = every_start(draft)
    tree = best_static_tree(several, budget, max_depth=max_depth)
    assert tree.budget <= budget
    assert max_depth is None or tree.max_depth <= max_depth
    grown = [StaticTree(tree, budget).grow(one) for one in several]
    best = best_shape(several, budget, budget if max_depth is None else max_depth)
    assert np.mean([one.expected for one in grown]) == pytest.approx(best, **close)
    dynamic = compare_policies(several, {"optimum": SpecExec(budget)})
    assert dynamic.of("expected").mean() >= best * (1 - 1e-12)


@fixed
@given(table=tables(non_increasing=True), budget=some.integers(1, 12))
@example(table=np.array([[0.0]]), budget=3)
def test_on_rates_the_best_static_tree_is_that_of_the_planner(table: np.ndarray, budget: int) -> None:
    rates = st.Acceptance(table)
    planned, found = st.best_tree(rates, budget), best_static_tree(RatesDraft(rates), budget)
    best = st.block_efficiency(planned, rates)
    assert st.block_efficiency(found, rates) == pytest.approx(best, **close)
    assert StaticTree(planned).grow(RatesDraft(rates)).expected == pytest.approx(best, **close)


@fixed
@given(table=tables(non_increasing=True), steps=some.lists(some.floats(0, 0.999), min_size=1, max_size=12))
@example(table=np.array([[0.5, 0.0], [0.3, 0.2]]), steps=[0, 0, 0, 0.5])
def test_a_static_tree_drafts_its_own_nodes_level_by_level(table: np.ndarray, steps: list[float]) -> None:
    tree = st.Tree([-1, *(int(step * (node + 1)) for node, step in enumerate(steps))])
    rates = st.Acceptance(table)
    reach = st.reach(tree, rates)
    found = StaticTree(tree, budget=20).grow(RatesDraft(rates))
    assert np.sort(found.probability) == pytest.approx(np.sort(reach[reach > 0]), rel=1e-12)
    assert found.budget == 20
    inner = np.unique(tree.parent[1:])
    asked = inner[reach[inner] > 0]
    assert (found.draft_calls, found.draft_tokens) == (tree.depth[asked].max() + 1, len(asked))
    if (reach > 0).all():
        paths = dict(zip(tree.to_paths(), reach[1:], strict=True))
        assert set(found.tree.to_paths()) == set(paths)


def test_a_static_tree_holds_the_drafts_own_tokens() -> None:
    draft = MarkovDraft(np.array([[0.1, 0.6, 0.3], [0.7, 0.1, 0.2], [0.2, 0.3, 0.5]]))
    found = StaticTree(st.Tree.from_paths([(0,), (1,), (1, 0), (1, 1)])).grow(draft)
    assert found.tokens.tolist() == [-1, 1, 2, 2, 1]
    assert found.tree.parent.tolist() == [-1, 0, 0, 2, 2]
    assert found.probability == pytest.approx(np.array([1, 0.6, 0.3, 0.15, 0.09]))
