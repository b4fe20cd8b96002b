"""Comparisons of policies: against the best of all trees, by seconds counted by hand, as a record."""

from __future__ import annotations

import json
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
    OptTreeAtCost,
    PolicyComparison,
    RatesDraft,
    Salf,
    SpecExec,
    StaticTree,
    best_static_tree,
    compare_policies,
    distance_to_optimum,
    standard_policies,
)
from spectheory.search.policy_comparison import Policy, means
from tests.known import known
from tests.plain_searches import CERTAIN, UNIFORM, budgets, close, drafts, fixed, optimum
from tests.refusals import refuses

LATENCY = st.Latency(
    np.array([1, 2, 8, 64]),
    np.array([64, 512]),
    np.array([[0.010, 0.010, 0.011, 0.02], [0.012, 0.012, 0.013, 0.025]]),
    np.array([[0.001, 0.0011, 0.0014, 0.003], [0.0012, 0.0013, 0.002, 0.004]]),
    overhead_seconds=0.001,
    level_overhead_seconds=0.0002,
    plain_overhead_seconds=0.0005,
)
RATES = st.Acceptance.by_depth_and_rank([[0.65, 0.12, 0.06, 0.03], [0.6, 0.1, 0.05, 0.02]])
DRAFT = RatesDraft(RATES)


def every_start(draft: MarkovDraft) -> list[MarkovDraft]:
    return [MarkovDraft(draft.q, start) for start in range(len(draft.q))]


@fixed
@given(draft=drafts(), budget=budgets)
@example(UNIFORM, 6)
@example(CERTAIN, 6)
def test_no_policy_is_above_the_best_of_all_trees_and_the_exact_ones_reach_it(draft: MarkovDraft, budget: int) -> None:
    policies = standard_policies(draft, budget, latency=LATENCY)
    found = compare_policies(draft, policies, latency=LATENCY)
    best = optimum(draft, budget)
    assert found.optimum == pytest.approx(np.full((len(policies), 1), best), **close)
    assert (found.distance >= 0).all()
    assert (found.expected <= best * (1 + 1e-12)).all()
    for i, (name, policy) in enumerate(policies.items()):
        drafted = policy.grow(draft)
        assert found.distance[i, 0] == distance_to_optimum(drafted, draft)
        counts = [drafted.budget, drafted.tree.budget, drafted.tree.max_depth, drafted.draft_calls]
        columns = [found.budget, found.nodes, found.depth, found.draft_calls]
        assert [column[i, 0] for column in columns] == counts
        assert (found.draft_tokens[i, 0], found.expected[i, 0]) == (drafted.draft_tokens, drafted.expected)
        if name in ("OPT-Tree", "SALF, threshold 0", "best static tree") or name.startswith("SpecExec"):
            assert found.distance[i, 0] == pytest.approx(0, abs=1e-12)  # one context: static trees are the optimum too


@fixed
@given(draft=drafts(), budget=budgets)
def test_several_drafts_are_the_single_ones_side_by_side(draft: MarkovDraft, budget: int) -> None:
    several = every_start(draft)
    policies = {
        "OPT-Tree": OptTree(budget, 0.2),
        "EAGLE-2": Eagle2(2, 3, budget),
        "SALF": Salf(budget),
    }
    found = compare_policies(several, policies, latency=LATENCY, context=100)
    singles = [compare_policies(one, policies, latency=LATENCY, context=100) for one in several]
    for name in ("budget", "nodes", "depth", "draft_calls", "draft_tokens", "expected", "optimum", "cycle_seconds"):
        assert np.array_equal(getattr(found, name), np.hstack([getattr(one, name) for one in singles])), name
    value, error = means(found.distance)
    apart = np.hstack([one.distance for one in singles])
    assert value == pytest.approx(sum(one.distance[:, 0] for one in singles) / len(several), abs=1e-12)
    assert error**2 * len(several) * (len(several) - 1) == pytest.approx(
        ((apart - value[:, None]) ** 2).sum(1), abs=1e-12
    )
    assert np.isnan(means(singles[0].distance).standard_error).all()


def test_a_cycle_takes_its_draft_calls_by_width_one_verification_and_the_overheads() -> None:
    """Each layer takes one call: the root, then the nodes that a layer keeps. The context 300 is between two others."""
    draft = RatesDraft(st.Acceptance.by_rank([0.5, 0.3, 0.1]))
    widths = {"EAGLE-2": [1, 2, 2, 2], "OPT-Tree": [1, 3, 6], "by one": [1] * 6, "chain": [1, 1, 1]}
    policies: dict[str, Policy] = {
        "EAGLE-2": Eagle2(2, 4, 6),
        "OPT-Tree": OptTree(6, threshold=0.31),
        "by one": SpecExec(6, 1),
        "chain": StaticTree(st.Tree.chain(3), 6),
    }
    found = compare_policies(draft, policies, latency=LATENCY, context=300)
    for i, (name, wide) in enumerate(widths.items()):
        assert (found.draft_calls[i, 0], found.draft_tokens[i, 0]) == (len(wide), sum(wide)), name
        seconds = sum(LATENCY.draft(width, 300) for width in wide) + LATENCY.target(int(found.nodes[i, 0]) + 1, 300)
        seconds += LATENCY.overhead_seconds + len(wide) * LATENCY.level_overhead_seconds
        assert known(found.cycle_seconds)[i, 0] == pytest.approx(seconds, **close)
        plain = LATENCY.target(1, 300) + LATENCY.plain_overhead_seconds
        assert known(found.speedup).value[i] == pytest.approx(found.expected[i, 0] * plain / seconds, **close)
    assert found.context == 300
    nothing = compare_policies(draft, {"off": StaticTree(st.Tree.chain(0))}, latency=LATENCY)
    assert nothing.context == 512
    assert known(nothing.speedup).value.tolist() == [1.0]


def test_a_speedup_is_a_ratio_of_means_with_the_error_of_one() -> None:
    distribution = np.arange(1, 41.0) ** -np.random.default_rng(0).uniform(1.2, 4, (40, 1))
    several = every_start(MarkovDraft(distribution / distribution.sum(1, keepdims=True)))
    found = compare_policies(several, {"SALF": Salf(16), "OPT-Tree": OptTree(16, 0.2)}, latency=LATENCY)
    assert found.speedup is not None
    assert found.cycle_seconds is not None
    tokens, seconds = found.expected.sum(1), found.cycle_seconds.sum(1)
    assert found.speedup.value == pytest.approx(LATENCY.plain(512) * tokens / seconds, **close)
    others = (tokens[:, None] - found.expected) / (seconds[:, None] - found.cycle_seconds)
    jackknife = LATENCY.plain(512) * np.sqrt(39 * others.var(1))
    assert found.speedup.standard_error == pytest.approx(jackknife, rel=0.05)


def test_the_standard_policies_have_one_budget_and_stop_where_drafting_no_longer_pays() -> None:
    policies = standard_policies(DRAFT, 24, latency=LATENCY)
    found = compare_policies(DRAFT, policies, latency=LATENCY)
    assert set(standard_policies(DRAFT, 24)) < set(policies)
    assert (found.budget == 24).all()
    speed = dict(zip(found.names, known(found.speedup).value, strict=True))
    chain = next(name for name in policies if name.startswith("chain of") and name.endswith("at cost"))
    assert speed[chain] == pytest.approx(st.plan(RATES, LATENCY, max_budget=24).chain_speedups[0], rel=1e-12)
    shallow = [st.best_tree(RATES, 24, max_depth=depth) for depth in range(1, 25)]
    fastest = max(st.block_efficiency(tree, RATES) / LATENCY.cycle(tree, 512) for tree in shallow)
    assert speed["static at cost"] == pytest.approx(fastest * LATENCY.plain(512), rel=1e-12)
    at_cost = policies["OPT-Tree at cost"]
    assert isinstance(at_cost, OptTreeAtCost)
    draft, target = LATENCY.draft(24, 512) + 0.0002, LATENCY.target(25, 512) + 0.001
    assert at_cost.draft_over_target == pytest.approx(draft / target)
    slow = standard_policies(DRAFT, 6, latency=st.Latency.constant(draft_seconds=2.0))
    assert slow["chain of 0 at cost"] == StaticTree(st.Tree.chain(0), 6)


def test_budgets_may_differ_and_each_is_measured_by_its_own_optimum() -> None:
    policies = {"few": Eagle2(2, 2, 3), "many": Eagle2(2, 2, 9)}
    found = compare_policies(DRAFT, policies)
    assert found.optimum[:, 0] == pytest.approx([SpecExec(n).grow(DRAFT).expected for n in (3, 9)], **close)


@pytest.mark.parametrize("latency", [None, LATENCY])
def test_the_record_survives_json(latency: st.Latency | None) -> None:
    several = every_start(UNIFORM)
    found = compare_policies(several, {"a": Eagle2(1, 2, 4), "b": SpecExec(4)}, latency=latency)
    again = PolicyComparison.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.names == found.names
    assert again.distance.tolist() == found.distance.tolist()
    assert again.to_dict() == found.to_dict()


def test_bad_arguments_are_named_with_their_repair() -> None:
    refuses(
        r"policies must be a dictionary of .* {\"OPT-Tree\": OptTree\(16\)}, got {}",
        compare_policies,
        DRAFT,
        {},
    )
    refuses(
        r"policies must be a dictionary .* got \[OptTree\(budget=3",
        compare_policies,
        DRAFT,
        [OptTree(3)],
    )
    one = {"a": OptTree(3)}
    refuses("drafts must be a draft model or a sequence of draft models, got an empty", compare_policies, [], one)
    advice = r"drafts must be draft models, with a method expand.*use RatesDraft\(acceptance\)"
    refuses(advice, compare_policies, RATES, one)
    refuses("drafts must be draft models, .*got 3", compare_policies, [DRAFT, 3], one)
    refuses("context=64 needs a latency: give a latency, or leave out", compare_policies, DRAFT, one, context=64)
    refuses("budget must be at least 1, got 0", standard_policies, DRAFT, 0)
    refuses("budget must be at least 3, got 2: the tree has 3 drafted nodes", StaticTree, st.Tree.chain(3), 2)
    refuses("budget must be at least 1, got 0: the tree has 0 drafted nodes", StaticTree, st.Tree.chain(0), 0)
    refuses("depth must be at least 1, got 0", best_static_tree, DRAFT, 3, max_depth=0)
    each, shape = np.ones((1, 1)), r"expected must have shape \(policies, drafts\), \(1, 1\), got \(1,\)"
    refuses(shape, PolicyComparison, ("a",), each, each, each, each, each, np.ones(1), each)


def test_a_policy_of_ones_own_and_a_shorter_answer() -> None:
    """Drafts may return different numbers of columns, and policies may come from outside."""

    class Narrow(DraftModel):
        def expand(self, paths: Any) -> tuple[np.ndarray, np.ndarray]:
            return np.full((len(paths), 1), 7), np.full((len(paths), 1), 0.9)

    class Own:
        def grow(self, draft: DraftModel) -> Drafted:
            return OptTree(2).grow(draft)

    found = compare_policies([DRAFT, Narrow()], {"own": Own()})
    assert found.expected == pytest.approx(np.array([[1 + 0.65 + 0.39, 1 + 0.9 + 0.81]]))
    assert best_static_tree([DRAFT, Narrow()], 2) == st.Tree.chain(2)
