"""Plans, simulation and tallies: predictions, refused input, and the intervals of tau."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import simulate
import spectheory as st
from spectheory.planning.candidates import Candidates, Limits
from spectheory.planning.fitting import Fitting
from tests.helpers import refuses

RATES = st.Acceptance.by_depth_and_rank([[0.6, 0.15, 0.05], [0.55, 0.1, 0.04]])


def curve(target: list[float], draft: list[float], overhead: float = 0.0) -> st.Latency:
    return st.Latency(
        np.array([1, 4, 16, 64]), np.array([100]), np.array([target]), np.array([draft]), None, None, overhead
    )


CURVE = curve([5e-3, 6e-3, 7e-3, 12e-3], [5e-4, 5e-4, 6e-4, 1e-3], 2e-4)


def test_a_cycle_is_charged_by_the_width_of_its_levels() -> None:
    tree = st.Tree.k_ary(4, 2)
    expected = CURVE.draft(1, 100) + CURVE.draft(4, 100) + CURVE.target(21, 100) + 2e-4
    assert CURVE.cycle(tree, 100) == pytest.approx(expected)


def test_every_answer_is_legal() -> None:
    free = st.Latency.constant(draft_seconds=0)
    assert st.plan(RATES, free, max_budget=8).answer == "tree"
    assert st.plan(RATES, st.Latency.constant(draft_seconds=0.05), max_budget=8, max_fanout=1).answer == "chain"
    off = st.plan(RATES, st.Latency.constant(draft_seconds=5), max_budget=8)
    assert (off.answer, off.tree, off.speedup, off.tau) == ("off", st.Tree.chain(0), 1, 1)
    assert off.cycle_seconds == off.plain_seconds


def test_a_plan_adds_up() -> None:
    plan = st.plan(RATES, CURVE, max_budget=32)
    assert plan.tau == pytest.approx(st.block_efficiency(plan.tree, RATES))
    assert plan.cycle_seconds == pytest.approx(CURVE.cycle(plan.tree, 100))
    assert plan.speedup == pytest.approx(plan.tau * plan.plain_seconds / plan.cycle_seconds)
    assert plan.tau_interval is None
    assert plan.reach.sum() == pytest.approx(plan.tau)
    chains = [st.evaluate(st.Tree.chain(length), RATES, CURVE, context=100).speedup for length in range(33)]
    assert Fitting(plan).chain_speedups[0] == pytest.approx(chains)
    assert plan.chain.tree.budget == int(np.argmax(chains))


@cache
def all_trees(budget: int) -> list[st.Tree]:
    """Every tree of up to `budget` drafted nodes, some more than once."""
    found = [st.Tree.chain(0)]
    for tree in found:
        if tree.budget < budget:
            found += [st.Tree([*tree.parent, parent]) for parent in range(tree.parent.max(initial=0), tree.budget + 1)]
    return found


@given(rates=hs.lists(hs.floats(0, 0.33), min_size=3, max_size=3), slope=hs.floats(0, 1), draft=hs.floats(0.01, 0.5))
@settings(derandomize=True, max_examples=40)
def test_no_tree_is_faster_where_a_forward_costs_the_same_at_every_width(
    rates: list[float], slope: float, draft: float
) -> None:
    """The time of a tree then depends only on its budget and depth, so the plan is optimal."""
    target = np.array([[1.0, 1 + slope]])
    latency = st.Latency(np.array([1, 6]), np.array([0]), target, np.full((1, 2), draft))
    acceptance = st.Acceptance.by_rank(rates)
    plain = latency.plain(0)
    best = max(
        st.block_efficiency(t, acceptance) * plain / latency.cycle(t, 0) if t.budget else 1.0 for t in all_trees(5)
    )
    assert st.plan(acceptance, latency, max_budget=5).speedup == pytest.approx(best, rel=1e-9)


@given(
    rates=hs.lists(hs.floats(0, 0.33), min_size=1, max_size=3),
    slope=hs.floats(0, 0.2),
    draft=hs.lists(hs.floats(0.01, 0.5), min_size=6, max_size=6),
)
@settings(derandomize=True, max_examples=40)
def test_steep_drafts_lose_little_to_the_fastest_of_all_trees(
    rates: list[float], slope: float, draft: list[float]
) -> None:
    """With at most 5 nodes, only one level can be wider than 1, so depth and width limits find the fastest tree."""
    tokens = np.arange(1, 7)
    latency = st.Latency(tokens, np.array([0]), (1 + slope * tokens)[None], np.cumsum(draft)[None])
    acceptance = st.Acceptance.by_rank(sorted(rates, reverse=True))
    speeds = [st.block_efficiency(tree, acceptance) / latency.cycle(tree, 0) for tree in all_trees(5)]
    found = st.plan(acceptance, latency, max_budget=5)
    assert found.speedup == pytest.approx(max(speeds) * latency.plain(0), rel=1e-9)


def test_a_narrow_tree_is_found_where_wide_levels_cost_much() -> None:
    """The best 5 nodes have two parents below the root, and 2.19 tokens; with one parent a level they have 2.114."""
    tokens = np.arange(1, 7)
    latency = st.Latency(tokens, np.array([0]), np.ones((1, 6)), np.array([[0.01, 1, 1, 1, 1, 1]]))
    found = st.plan(st.Acceptance.by_rank([0.4, 0.35]), latency, max_budget=5)
    assert (max(found.tree.level_widths()), found.tau) == (1, pytest.approx(2.114))
    assert found.speedup == pytest.approx(2.114 * 1.0 / 1.03)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (-5, "context must be at least 0, got -5"),
        (1.5, "context must be a whole number.*, got 1.5"),
        (
            100_000,
            "measured 100 to 100 cached tokens, got 100,000: measure there, or plan for the nearest, context=100",
        ),
        (99, "context must be within the measured 100 to 100 .* context=100"),
    ],
)
def test_a_context_that_was_not_measured_is_refused(context: int, message: str) -> None:
    refuses(message, st.plan, RATES, CURVE, context=context)
    refuses(message, st.schedule, RATES, lambda _: CURVE, [1, 2], context=context)


@given(
    tree=hs.integers(0, 10).flatmap(lambda n: hs.tuples(*(hs.integers(0, u) for u in range(n)))),
    rates=hs.lists(hs.lists(hs.floats(0, 0.33), min_size=3, max_size=3), min_size=1, max_size=3),
)
@settings(derandomize=True, max_examples=30)
def test_simulation_agrees_with_theory(tree: tuple[int, ...], rates: list[list[float]]) -> None:
    """Two independent paths to tau, within 6 standard errors of 20,000 independent cycles: level 2e-9 a case."""
    plan = st.evaluate(st.Tree([-1, *tree]), st.Acceptance.by_depth_and_rank(rates), st.Latency.constant())
    tally = simulate.run(plan, cycles=20_000, seed=5)
    accepted = np.repeat(np.arange(len(tally.accepted_histogram)), tally.accepted_histogram)
    slack = 6 * max(accepted.std(), 0.02) / np.sqrt(20_000)
    assert abs(tally.tau - st.block_efficiency(plan.tree, plan.acceptance)) <= slack
    assert tally.cycles.sum() == 20_000


def tally(emitted: list[int], cycles: list[int], histogram: list[int]) -> st.Tally:
    return st.Tally(np.array(emitted), np.array(cycles), np.array(histogram))


def test_tallies_add_up() -> None:
    one = dataclasses.replace(
        tally([5, 3], [2, 2], [2, 1, 0, 1]), new_tokens=8, seconds=2.0, plain_tokens=8, plain_seconds=4.0
    )
    two = tally([7], [7], [7])
    refuses("sources must name one for each of 3", lambda: one + dataclasses.replace(two, sources=("a",)))
    both = one + two
    assert both.emitted.tolist() == [5, 3, 7]
    assert both.accepted_histogram.tolist() == [9, 1, 0, 1]
    assert both.tau == 15 / 11
    assert (one.speedup, two.speedup) == (2, None)
    assert one.repeated_share is None


def test_the_interval_of_tau_covers() -> None:
    """400 intervals of level 0.9 over 20 requests with dependent cycles: coverage within 4 binomial deviations."""
    rng = np.random.default_rng(0)
    mean, covered = 2.0, 0
    for _ in range(400):
        chance = np.clip(rng.normal(0.5, 0.1, 20), 0, 1)
        accepted = rng.binomial(2, chance[:, None], (20, 30))
        counts = tally(list(accepted.sum(1) + 30), [30] * 20, list(np.bincount(accepted.ravel(), minlength=3)))
        low, high = counts.tau_interval(0.9)
        covered += low <= mean <= high
    assert abs(covered - 360) <= 4 * np.sqrt(400 * 0.9 * 0.1)


@pytest.mark.parametrize("rising", [False, True], ids=["non-increasing in rank", "rising in rank"])
def test_every_candidate_is_timed_as_its_tree_alone_is(rising: bool) -> None:
    """Level overheads too, which a tree pays once for each of its levels."""
    table = np.random.default_rng(0).dirichlet(np.ones(6), 3)[:, :4]
    acceptance = st.Acceptance.by_depth_and_rank(table if rising else -np.sort(-table, axis=1))
    latency = dataclasses.replace(
        CURVE, level_overhead_seconds=1e-3, overhead_seconds=2e-4, plain_overhead_seconds=1e-4
    )
    candidates = Candidates(acceptance, Limits(12))
    for number, speedup in enumerate(candidates.speedups(latency, 100)):
        tree = candidates.tree(number)
        assert speedup == pytest.approx(st.evaluate(tree, acceptance, latency, context=100).speedup, rel=1e-12)
