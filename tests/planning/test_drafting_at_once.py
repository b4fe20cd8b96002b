"""Drafts that draft all levels in one forward, and the cost of a tree mask: every search against all trees."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import spectheory as st
from spectheory.hardware.latency import Drafting
from spectheory.planning.envelope import Envelopes
from spectheory.planning.fitting import Fitting
from spectheory.planning.planner import schedule
from tests.planning.test_plan import all_trees

BUDGET = 6
RATES = st.Acceptance.by_depth_and_rank([[0.6, 0.3, 0.05], [0.7, 0.2, 0.05], [0.4, 0.1, 0.02]])


def latency(rng: np.random.Generator, *, mask: float = 0.0) -> st.Latency:
    """One forward of n tokens drafts n levels; random increasing times."""
    tokens = np.arange(1, BUDGET + 2)
    target, draft = 1 + rng.random(len(tokens)).cumsum() * 0.1, 0.3 * rng.random(len(tokens)).cumsum()
    level, fixed = 0.1 * rng.random(2)
    return st.Latency(
        tokens,
        np.array([100]),
        target[None],
        draft[None],
        overhead_seconds=fixed,
        level_overhead_seconds=level,
        drafting="at once",
        tree_mask_seconds=mask,
    )


def seconds(at: st.Latency, tree: st.Tree) -> float:
    """One draft forward of as many tokens as the tree is deep, one overhead of a level, and the mask of a tree."""
    masked = 0 if tree.is_chain else tree.budget
    drafting = at.draft(tree.max_depth, 100) + at.level_overhead_seconds
    return drafting + at.target(tree.budget + 1, 100) + at.overhead_seconds + masked * at.tree_mask_seconds


@pytest.mark.parametrize("mask", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(8))
def test_the_plan_is_the_fastest_of_all_trees(seed: int, mask: float) -> None:
    """All 873 trees of up to 6 nodes, with random rates that are non-increasing in rank."""
    rng = np.random.default_rng(seed)
    rates = st.Acceptance.by_depth_and_rank(-np.sort(-rng.dirichlet(np.ones(4), size=3)[:, :3], axis=1))
    at = latency(rng, mask=mask)
    best = max(
        st.block_efficiency(tree, rates) * at.plain(100) / seconds(at, tree)
        for tree in all_trees(BUDGET)
        if tree.budget
    )
    found = st.plan(rates, at, max_budget=BUDGET)
    assert found.speedup == pytest.approx(max(best, 1.0))
    assert found.cycle_seconds == pytest.approx(seconds(at, found.tree) if found.tree.budget else at.plain(100))
    planned = schedule(rates, lambda _: at, [1], context=100, max_budget=BUDGET)
    assert planned.speedups[0] == pytest.approx(found.speedup)


@pytest.mark.parametrize("drafting", ["levels", "at once"])
def test_tables_of_speeds_and_chains_are_those_of_single_cycles(drafting: Drafting) -> None:
    at = dataclasses.replace(latency(np.random.default_rng(1), mask=0.03), drafting=drafting)
    planned = schedule(RATES, lambda _: at, [1], context=100, max_budget=BUDGET)
    chains = Fitting(planned, "d").chain_speedups[0]
    expected = [
        st.block_efficiency(chain, RATES) * at.plain(100) / at.cycle(chain, 100)
        for chain in map(st.Tree.chain, range(len(chains)))
    ]
    assert chains == pytest.approx(expected)


@pytest.mark.parametrize("drafting", ["levels", "at once"])
def test_the_fastest_envelope_is_the_best_of_all(drafting: Drafting) -> None:
    """An envelope of several branches is verified as a tree, one of one branch as a chain."""
    at = dataclasses.replace(latency(np.random.default_rng(2), mask=0.03), drafting=drafting)
    found = Envelopes(RATES, max_levels=3, max_branching=3, max_budget=BUDGET).fastest([at], 100, np.ones(1))
    speedups = {}
    for levels, branching in itertools.product(range(1, 4), range(1, 4)):
        limited = Envelopes(RATES, max_levels=levels, max_branching=branching, max_budget=BUDGET)
        for nodes, tau in enumerate(limited.yields()[1:], 1):
            widths = [1] + [branching] * (levels - 1)
            drafting_seconds = at.draft(levels, 100) if at.drafts_at_once else sum(at.draft(w, 100) for w in widths)
            runs = 1 if at.drafts_at_once else levels
            fixed = at.overhead_seconds + runs * at.level_overhead_seconds + 0.03 * nodes * (branching > 1)
            whole = drafting_seconds + fixed + at.target(nodes + 1, 100)
            speedups[levels, branching, nodes] = tau * at.plain(100) / whole
    assert found.speedups[0] == pytest.approx(max(speedups.values()))


def test_delayed_trees_that_are_drafted_at_once_take_one_forward() -> None:
    at = latency(np.random.default_rng(4), mask=0.03)
    found = st.yields.delayed_seconds(at, 2, 2, 1)
    expected = at.draft(3, 100) + at.target(6, 100) + at.overhead_seconds + at.level_overhead_seconds + 5 * 0.03
    assert found == pytest.approx(expected)
    assert st.yields.delayed_seconds(at, 2, 0, 0) == at.plain(100)
