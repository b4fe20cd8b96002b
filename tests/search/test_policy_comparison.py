"""Comparisons of policies: against the best of all trees, and by seconds counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given

import spectheory as st
from spectheory.search import (
    Drafted,
    DraftModel,
    Eagle2,
    MarkovDraft,
    OptTree,
    RatesDraft,
    Salf,
    SpecExec,
    StaticTree,
    best_static_tree,
    compare_policies,
    standard_policies,
)
from spectheory.search.policy_comparison import Policy
from tests.helpers import refuses
from tests.plain_searches import CERTAIN, UNIFORM, budgets, close, drafts, fixed, optimum

RATES = st.Acceptance.by_depth_and_rank([[0.65, 0.12, 0.06, 0.03], [0.6, 0.1, 0.05, 0.02]])
DRAFT = RatesDraft(RATES)


def every_start(draft: MarkovDraft) -> list[MarkovDraft]:
    return [MarkovDraft(draft.q, start) for start in range(len(draft.q))]


@fixed
@given(draft=drafts(), budget=budgets)
@example(UNIFORM, 6)
@example(CERTAIN, 6)
def test_no_policy_is_above_the_best_of_all_trees_and_the_exact_ones_reach_it(draft: MarkovDraft, budget: int) -> None:
    policies = standard_policies(draft, budget)
    found = compare_policies(draft, policies)
    best = optimum(draft, budget)
    assert found.optimum == pytest.approx(np.full((len(policies), 1), best), **close)
    assert (found.of("budget") == budget).all()
    assert (found.distance >= 0).all()
    assert (found.of("expected") <= best * (1 + 1e-12)).all()
    for i, name in enumerate(policies):
        if name in ("OPT-Tree", "SALF, threshold 0", "best static tree") or name.startswith("SpecExec"):
            assert found.distance[i, 0] == pytest.approx(0, abs=1e-12)  # one context: static trees are the optimum too


def test_several_drafts_are_the_single_ones_side_by_side() -> None:
    distribution = np.arange(1, 13.0) ** -np.random.default_rng(0).uniform(1.2, 4, (12, 1))
    several = every_start(MarkovDraft(distribution / distribution.sum(1, keepdims=True)))
    policies = {"OPT-Tree": OptTree(8, 0.2), "EAGLE-2": Eagle2(2, 3, 4), "SALF": Salf(8)}
    found = compare_policies(several, policies)
    singles = [compare_policies(one, policies) for one in several]
    for name in ("budget", "draft_calls", "draft_tokens", "expected"):
        assert np.array_equal(found.of(name), np.hstack([one.of(name) for one in singles])), name
    assert np.array_equal(found.optimum, np.hstack([one.optimum for one in singles]))
    header, *lines = found.table.splitlines()
    assert header.split() == ["policy", "E", "short", "calls", "tokens"]
    assert [line.split()[1] for line in lines] == [f"{mean:.3f}" for mean in found.of("expected").mean(1)]


def test_draft_calls_and_their_tokens_are_counted() -> None:
    """Each layer takes one call: the root, then the nodes that a layer keeps."""
    draft = RatesDraft(st.Acceptance.by_rank([0.5, 0.3, 0.1]))
    widths = {"EAGLE-2": [1, 2, 2, 2], "OPT-Tree": [1, 3, 6], "by one": [1] * 6, "chain": [1, 1, 1]}
    policies: dict[str, Policy] = {
        "EAGLE-2": Eagle2(2, 4, 6),
        "OPT-Tree": OptTree(6, threshold=0.31),
        "by one": SpecExec(6, 1),
        "chain": StaticTree(st.Tree.chain(3), 6),
    }
    found = compare_policies(draft, policies)
    for i, (name, wide) in enumerate(widths.items()):
        assert (found.of("draft_calls")[i, 0], found.of("draft_tokens")[i, 0]) == (len(wide), sum(wide)), name


def test_bad_arguments_are_named_with_their_repair() -> None:
    refuses(r"policies must be a dictionary of .*: OptTree\(16\)}, got {}", compare_policies, DRAFT, {})
    refuses(r"policies must be a dictionary .* got \[OptTree\(budget=3", compare_policies, DRAFT, [OptTree(3)])
    one = {"a": OptTree(3)}
    refuses("drafts must be a draft model or a sequence of draft models, got an empty", compare_policies, [], one)
    advice = r"drafts must be draft models, with a method expand.*use RatesDraft\(acceptance\)"
    refuses(advice, compare_policies, RATES, one)
    refuses("drafts must be draft models, .*got 3", compare_policies, [DRAFT, 3], one)
    refuses("budget must be between 1 and .*, got 0", standard_policies, DRAFT, 0)
    refuses("budget must be at least 3, got 2: the tree has 3 drafted nodes", StaticTree, st.Tree.chain(3), 2)
    refuses("budget must be at least 1, got 0: the tree has 0 drafted nodes", StaticTree, st.Tree.chain(0), 0)
    refuses("depth must be at least 1, got 0", best_static_tree, DRAFT, 3, max_depth=0)


def test_a_policy_of_ones_own_and_a_shorter_answer() -> None:
    """Drafts may return different numbers of columns, and policies may come from outside."""

    class Narrow(DraftModel):
        def expand(self, paths: Any) -> tuple[np.ndarray, np.ndarray]:
            return np.full((len(paths), 1), 7), np.full((len(paths), 1), 0.9)

    class Own:
        def grow(self, draft: DraftModel) -> Drafted:
            return OptTree(2).grow(draft)

    found = compare_policies([DRAFT, Narrow()], {"own": Own()})
    assert found.of("expected") == pytest.approx(np.array([[1 + 0.65 + 0.39, 1 + 0.9 + 0.81]]))
    assert best_static_tree([DRAFT, Narrow()], 2) == st.Tree.chain(2)
