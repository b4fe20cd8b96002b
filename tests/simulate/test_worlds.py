"""Worlds: what is drawn has the distribution that is computed, by equality of enumerated branches where possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs
from scipy.stats import chi2, norm

import simulate
import spectheory as st
from simulate.worlds import RateWorld, ReachWorld, SimulatedWorld, Walks
from tests.helpers import refuses

LEVEL = 1e-6
"""Error level of each statistical test; seeds are fixed."""
TREES = (
    hs.integers(0, 6)
    .flatmap(lambda n: hs.tuples(*(hs.integers(0, u) for u in range(n))))
    .map(lambda above: st.Tree([-1, *above]))
)
ROWS = hs.lists(hs.integers(0, 5), min_size=3, max_size=3).map(lambda row: [share / 16 for share in row])
RATES = hs.lists(ROWS, min_size=1, max_size=3).map(st.Acceptance.by_depth_and_rank)
"""Rates in sixteenths, so that products and sums of a few of them are exact in float64."""


def enumerated(play: Callable[[Any], Walks]) -> np.ndarray:
    """(L + 1,) Fractions: the distribution of the first cycle's accepted tokens over all branches."""
    found: dict[int, Fraction] = defaultdict(Fraction)
    deepest = 0
    for walks, chance in st.branches(play):
        found[int(walks.accepted[0])] += chance
        deepest = walks.deepest
    return np.array([found[kept] for kept in range(deepest + 1)])


def one_cycle(world: SimulatedWorld, shape: Any) -> np.ndarray:
    return enumerated(lambda rng: world.walks(shape, requests=1, cycles=1, rng=rng))


def chi_square(walks: Walks, emitted: np.ndarray) -> float:
    """p-value of independent cycles of one class."""
    seen = np.bincount(walks.accepted, minlength=walks.deepest + 1)
    due = emitted * len(walks.accepted)
    assert (seen[due == 0] == 0).all()
    rare = due < 5
    seen, due = (np.append(values[~rare], values[rare].sum()) for values in (seen, due))
    kept = due > 0
    return float(chi2.sf(((seen - due)[kept] ** 2 / due[kept]).sum(), max(1, kept.sum() - 1)))


def z_of_ratio(tally: st.Tally, tau: float) -> float:
    """Standard errors between the tokens of a tally and tau for each cycle; requests are independent."""
    excess = tally.emitted - tau * tally.cycles
    return float(excess.mean() / (excess.std(ddof=1) / len(excess) ** 0.5))


@settings(derandomize=True, max_examples=40)
@given(TREES, RATES)
def test_a_walk_by_rates_has_the_distribution_that_is_computed(tree: st.Tree, rates: st.Acceptance) -> None:
    world = RateWorld(rates)
    found = one_cycle(world, tree)
    assert found.sum() == 1
    assert found.tolist() == world.emitted_tokens(tree).tolist()
    assert found @ np.arange(1, len(found) + 1) == world.block_efficiency(tree) == st.block_efficiency(tree, rates)


@settings(derandomize=True, max_examples=30)
@given(TREES, RATES, hs.data())
def test_a_walk_by_reach_is_a_walk_by_rates_and_cuts_estimates(
    tree: st.Tree, rates: st.Acceptance, data: hs.DataObject
) -> None:
    rated = RateWorld(rates)
    reached = ReachWorld(tree, st.reach(tree, rates))
    assert np.allclose(one_cycle(reached, tree).astype(float), rated.emitted_tokens(tree), atol=1e-12)
    assert reached.block_efficiency(tree) == pytest.approx(rated.block_efficiency(tree))
    wrong = st.reach(tree, rates) * 1
    wrong[1:] = data.draw(hs.lists(hs.sampled_from([-0.25, 0.5, 1.5]), min_size=tree.budget, max_size=tree.budget))
    if (np.bincount(tree.parent[1:], minlength=1) <= 1).all():  # shares of one child are probabilities once cut
        cut = ReachWorld(tree, wrong).emitted_tokens(tree)
        assert ((cut >= 0) & (cut <= 1)).all()


def test_many_walks_at_once_are_independent_cycles() -> None:
    """Chi-squared of the accepted tokens of vectorised walks, and no correlation of consecutive cycles."""
    cases: list[tuple[SimulatedWorld, Any]] = [
        (RateWorld(st.Acceptance.by_rank([0.6, 0.2, 0.1])), st.Tree.k_ary(3, 3)),
        (RateWorld(st.Acceptance.by_depth_and_rank([[0.7, 0.1], [0.4, 0.3]])), st.Tree([-1, 0, 0, 1, 2, 2, 3])),
    ]
    for seed, (world, tree) in enumerate(cases):
        walks = world.walks(tree, requests=40, cycles=1000, rng=np.random.default_rng(seed))
        assert chi_square(walks, world.emitted_tokens(tree)) > LEVEL
        assert walks.request.tolist() == np.repeat(np.arange(40), 1000).tolist()
        off = walks.accepted - walks.accepted.mean()
        assert abs((off[1:] * off[:-1]).mean() / off.var() * len(off) ** 0.5) < norm.isf(LEVEL / 2)


def test_what_a_world_does_not_know_is_refused() -> None:
    tree, rng = st.Tree.chain(2), np.random.default_rng(0)
    reached = ReachWorld(tree, np.array([1, 0.5, 0.25]))
    refuses("requests must be at least 1, got 0", reached.walks, tree, requests=0, cycles=1, rng=rng)
    refuses("tree must be a Tree", RateWorld(st.Acceptance.by_rank([0.5])).block_efficiency, st.search.OptTree(4))
    refuses("the tree whose reach is known", reached.block_efficiency, st.Tree.chain(1))
    refuses("one entry for each node", ReachWorld, tree, np.ones(2))


def test_run_uses_a_world_and_draws_as_its_rates_do() -> None:
    """The same seed gives the same cycles through `run` and through the world, and other worlds another tau."""
    rates = st.Acceptance.by_rank([0.6, 0.2])
    plan = st.evaluate(st.Tree.k_ary(2, 2), rates, st.Latency.constant())
    tally = simulate.run(plan, cycles=5000, seed=7)
    walks = RateWorld(rates).walks(plan.tree, requests=50, cycles=100, rng=np.random.default_rng(7))
    assert tally.emitted.tolist() == walks.tally(tally.provenance).emitted.tolist()
    assert simulate.run(plan, seed=7, cycles=5000, world=RateWorld(rates)).emitted.tolist() == tally.emitted.tolist()
    assert simulate.run(plan, world=RateWorld(st.Acceptance.by_rank([0.0]))).tau == 1
