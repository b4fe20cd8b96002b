"""Tests of every policy against all trees of small drafts, and against its published algorithm."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spectheory.core.acceptance import Acceptance
from spectheory.core.tree import Tree
from spectheory.search import DraftModel, Eagle2, MarkovDraft, OptTree, RatesDraft, Salf, SpecExec, best_tree
from spectheory.yields import block_efficiency
from tests.helpers import refuses
from tests.plain_searches import (
    CERTAIN,
    ORPHANING,
    ROOT,
    UNIFORM,
    budgets,
    children_of,
    close,
    drafts,
    fixed,
    nodes_of,
    optimum,
    plain_best_first,
    plain_eagle2,
    plain_opt_tree,
    plain_salf,
)
from tests.search.test_search import tables


@fixed
@given(draft=drafts(), budget=budgets, threshold=st.sampled_from([0.0, 0.125, 0.5, 1.0]))
@example(UNIFORM, 6, 0.0)
@example(CERTAIN, 6, 0.0)
@example(ORPHANING, 2, 0.0)
def test_opt_tree_is_algorithm_1(draft: MarkovDraft, budget: int, threshold: float) -> None:
    found = OptTree(budget, threshold).grow(draft)
    nodes, calls, fed = plain_opt_tree(children_of(draft), budget, threshold)
    assert (nodes_of(found), found.draft_calls, found.draft_tokens) == (nodes, calls, fed)


@fixed
@given(draft=drafts(), top_k=st.integers(1, 4), depth=st.integers(1, 5), budget=budgets)
@example(UNIFORM, 3, 3, 6)
@example(CERTAIN, 2, 6, 6)
def test_eagle2_is_its_beam_search_and_below_the_optimum(
    draft: MarkovDraft, top_k: int, depth: int, budget: int
) -> None:
    found = Eagle2(top_k, depth, budget).grow(draft)
    assert (nodes_of(found), found.draft_calls, found.draft_tokens) == plain_eagle2(
        children_of(draft), top_k, depth, budget
    )
    assert found.expected <= optimum(draft, budget) * (1 + 1e-12)
    assert Eagle2(budget, budget, budget).grow(draft).expected == pytest.approx(optimum(draft, budget), **close)


@fixed
@given(draft=drafts(), budget=budgets, threshold=st.sampled_from([0, 0.25, 0.5, 0.9, 1, 1.5]), batch=st.integers(1, 5))
@example(UNIFORM, 6, 0.5, 2)
@example(CERTAIN, 6, 0, 3)
@example(ORPHANING, 2, 0, 1)
def test_salf_is_algorithm_2(draft: MarkovDraft, budget: int, threshold: float, batch: int) -> None:
    found = Salf(budget, threshold, batch).grow(draft)
    nodes, sums, fed = plain_salf(children_of(draft), budget, threshold, batch)
    assert (nodes_of(found), found.draft_calls, found.draft_tokens) == (nodes, len(sums) - 1, fed)
    assert all(after <= before + 1e-15 for before, after in pairwise(sums))
    full = Salf(budget, threshold, batch, fill=True).grow(draft)
    assert (full.draft_calls, full.draft_tokens) == (found.draft_calls, found.draft_tokens)
    assert full.expected >= found.expected
    assert set(nodes_of(found)) <= set(nodes_of(full)) or full.tree.budget == budget


@fixed
@given(draft=drafts(), budget=budgets, batch=st.integers(1, 7))
@example(UNIFORM, 6, 2)
@example(CERTAIN, 6, 2)
@example(ORPHANING, 2, 1)
def test_what_searches_everything_finds_the_optimum_of_all_trees(draft: MarkovDraft, budget: int, batch: int) -> None:
    best = optimum(draft, budget)
    exact = [SpecExec(budget, batch), OptTree(budget), Salf(budget, 0, batch)]
    for policy in [*exact, Salf(budget, 0, batch, fill=True)]:
        found = policy.grow(draft)
        assert found.expected == pytest.approx(best, **close)
    first = [-node[0] for node in plain_best_first(children_of(draft), budget)]
    assert SpecExec(budget, batch).grow(draft).probability[1:].tolist() == first


@pytest.mark.parametrize("draft", [UNIFORM, CERTAIN, ORPHANING], ids=["uniform", "certain", "orphaning"])
def test_ties_orphan_no_node_and_give_the_same_tree_again(draft: MarkovDraft) -> None:
    for budget in range(1, 30):
        for policy in [OptTree(budget), Eagle2(3, 4, budget), SpecExec(budget, 4), Salf(budget, 0.1, 4)]:
            found, again = policy.grow(draft), policy.grow(draft)
            assert found.tree == again.tree
            assert found.tokens.tolist() == again.tokens.tolist()
            for node in nodes_of(found):
                assert node in children_of(draft)(node[3] if node[3] != ROOT else ROOT)


def test_algorithm_1_as_printed_can_orphan_a_node_and_a_threshold_can_miss_the_optimum() -> None:
    children = children_of(ORPHANING)
    drafted = [child for node in [ROOT, *children(ROOT)] for child in children(node)]
    tied = [node for node in drafted if node[0] == -0.5]
    assert min(node[0] for node in drafted) == -0.5  # any 2 of these are "the 2 nodes with the largest p-hat"
    assert any({node[3] for node in chosen} - {ROOT, *chosen} for chosen in combinations(tied, 2))
    assert OptTree(2).grow(ORPHANING).tree == Tree([-1, 0, 0])
    even = MarkovDraft(np.array([[0.5, 0.5], [0.5, 0.5]]))
    early = OptTree(3, threshold=1.0).grow(even)
    assert early.expected == 2


def test_a_beam_misses_what_lies_outside_it() -> None:
    draft = MarkovDraft(np.array([[0.0, 0.5, 0.3, 0.2], [0.25] * 4, [0, 0, 0, 1], [0, 0, 0, 1]]))
    found = Eagle2(1, 3, 3).grow(draft)
    assert nodes_of(found)[-1][1] == 3
    assert found.expected == pytest.approx(1 + 0.5 + 0.125 + 0.0625, **close)
    assert Eagle2(2, 2, 3).grow(draft).expected == pytest.approx(2.1, **close)


def test_salf_as_printed_never_ends_at_threshold_0_and_its_sums_need_not_fall() -> None:
    with pytest.raises(RecursionError):
        plain_salf(children_of(UNIFORM), 3, 0, 2, ends=False)
    _, sums, _ = plain_salf(children_of(CERTAIN), 4, 0, 1)
    assert sums == [1, 1, 1, 1, 0]
    assert Salf(5, threshold=1.01).grow(UNIFORM).tree == Tree.chain(0)
    half = Salf(6, threshold=0.9, batch=2).grow(UNIFORM)
    assert (half.tree.budget, half.draft_calls) == (2, 1)
    assert Salf(6, threshold=0.9, batch=2, fill=True).grow(UNIFORM).tree.budget == 3


def test_stopping_when_the_last_batch_gives_nothing_misses_the_optimum() -> None:
    draft = MarkovDraft(np.array([[0, 0.4, 0.35, 0.25], [0.25] * 4, [0, 0, 0, 1], [0.25] * 4]))
    children = children_of(draft)
    first = children(ROOT)[:3]  # full; as published, the best of these is expanded alone, and no child enters
    assert max(-child[0] for child in children(first[0])) < -first[-1][0]
    assert SpecExec(3, 1).grow(draft).expected == pytest.approx(1 + 0.4 + 0.35 + 0.35, **close)


@fixed
@given(table=tables(), budget=st.integers(1, 12), batch=st.integers(1, 12))
@example(table=np.array([[0.1, 0.8]]), budget=3, batch=2)
@example(table=np.array([[0.5, 0.0], [0.0, 0.0]]), budget=3, batch=2)
def test_planned_rates_give_the_best_tree_of_the_rates(table: np.ndarray, budget: int, batch: int) -> None:
    acceptance, ranked = Acceptance(table), Acceptance(-np.sort(-table, axis=1))
    found = SpecExec(budget, batch).grow(RatesDraft(acceptance))
    best = block_efficiency(best_tree(ranked, budget), ranked)
    assert found.expected == pytest.approx(best, **close)
    assert block_efficiency(found.tree, ranked) == pytest.approx(best, **close)
    assert OptTree(budget).grow(RatesDraft(acceptance)).expected == pytest.approx(best, **close)
    planned = block_efficiency(best_tree(acceptance, budget), acceptance)
    assert planned <= best * (1 + 1e-12)  # ranks may be picked freely here; where rates fall they are the same
    assert not acceptance.is_non_increasing or planned == pytest.approx(best, **close)


def test_bad_arguments_are_named_with_their_repair() -> None:
    refuses("threshold must be a number of at least 0, got nan: with 0, layers are", OptTree, 5, nan)
    refuses("top_k must be at least 1, got 0: a chain has 1", Eagle2, 0, 3, 5)
    refuses("batch must be at least 1, got 0: batch is the maximum number of nodes of a draft call", SpecExec, 5, 0)
    refuses("threshold must be a number of at least 0, got nan: with 0, the search", Salf, 5, nan)
    refuses(r"q must have shape \(V, V\), .* got shape \(2, 3\)", MarkovDraft, np.ones((2, 3)))
    refuses("start must be a token between 0 and 1, got 2", MarkovDraft, np.eye(2), 2)
    refuses(r"acceptance must be Acceptance, got \[0\.5\]", RatesDraft, [0.5])
    assert OptTree(5, inf).grow(UNIFORM).draft_calls == 1


@pytest.mark.parametrize(
    ("tokens", "probabilities"),
    [
        ([[0, 1]], [[0.4, 0.6]]),
        ([[0, 1]], [[0.6, nan]]),
        ([[0, 1]], [[0.9, 0.8]]),
        ([[0, 1]], [[0.9, -0.1]]),
        ([[0]], [[0.6, 0.4]]),
        ([[0], [1]], [[0.6], [0.4]]),
    ],
)
def test_a_draft_that_returns_nonsense_is_refused(tokens: list[list[int]], probabilities: list[list[float]]) -> None:
    class Nonsense(DraftModel):
        def expand(self, paths: object) -> tuple[np.ndarray, np.ndarray]:
            return np.array(tokens), np.array(probabilities)

    refuses(r"draft\.expand must return", SpecExec(3).grow, Nonsense())
