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
from proofs_check.goose import walks as goose_walks
from simulate.worlds import (
    ClassWorld,
    EmittedTokens,
    RateWorld,
    ReachWorld,
    SimulatedWorld,
    TwoSourceWorld,
    Walks,
)
from spectheory.goose import SpineTree, optimal_tree
from spectheory.otlp import NSS
from spectheory.verify import Block, Greedy, TopDown
from tests.refusals import refuses

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
CLASSES = st.RequestClasses.from_histogram(np.array([420, 180, 110, 290]))


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


def chi_square(walks: Walks, emitted: EmittedTokens) -> float:
    """p-value of independent cycles of one class."""
    seen = np.bincount(walks.accepted, minlength=walks.deepest + 1)
    due = emitted.probabilities[0] * len(walks.accepted)
    assert (seen[due == 0] == 0).all()
    rare = due < 5
    seen, due = (np.append(values[~rare], values[rare].sum()) for values in (seen, due))
    kept = due > 0
    return float(chi2.sf(((seen - due)[kept] ** 2 / due[kept]).sum(), max(1, kept.sum() - 1)))


def z_of_ratio(tally: st.Tally, tau: float) -> float:
    """Standard errors between the tokens of a tally and tau for each cycle; requests are independent."""
    excess = tally.emitted - tau * tally.cycles
    return float(excess.mean() / (excess.std(ddof=1) / len(excess) ** 0.5))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(TREES, RATES)
def test_a_walk_by_rates_has_the_distribution_that_is_computed(tree: st.Tree, rates: st.Acceptance) -> None:
    world = RateWorld(rates)
    found = one_cycle(world, tree)
    assert found.sum() == 1
    assert found.tolist() == world.emitted_tokens(tree).probabilities[0].tolist()
    assert found @ np.arange(1, len(found) + 1) == world.block_efficiency(tree) == st.block_efficiency(tree, rates)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(TREES, RATES, hs.data())
def test_a_walk_by_reach_is_a_walk_by_rates_and_cuts_estimates(
    tree: st.Tree, rates: st.Acceptance, data: hs.DataObject
) -> None:
    rated = RateWorld(rates)
    reached = ReachWorld(tree, st.reach(tree, rates))
    assert np.allclose(one_cycle(reached, tree).astype(float), rated.emitted_tokens(tree).probabilities[0], atol=1e-12)
    assert reached.block_efficiency(tree) == pytest.approx(rated.block_efficiency(tree))
    wrong = st.reach(tree, rates) * 1
    wrong[1:] = data.draw(hs.lists(hs.sampled_from([-0.25, 0.5, 1.5]), min_size=tree.budget, max_size=tree.budget))
    if (np.bincount(tree.parent[1:], minlength=1) <= 1).all():  # shares of one child are probabilities once cut
        cut = ReachWorld(tree, wrong).emitted_tokens(tree).probabilities
        assert ((cut >= 0) & (cut <= 1)).all()


def two_source_trees() -> list[SpineTree]:
    """Trees with and without a spine, a spine that is not drafted, and one that is not the first child."""
    marked = [([-1, 0, 1, 0, 0, 1, 3], [0, 1, 2]), ([-1, 0, 0, 1], [0]), ([-1, 0, 0, 2], [0, 2]), ([-1], [0])]
    return [
        SpineTree.valued(st.Tree(parent), np.isin(np.arange(len(parent)), spine), 0.5, 0.25) for parent, spine in marked
    ] + [optimal_tree(0.625, 0.25, 6)]


@pytest.mark.parametrize("siblings", ["sequential", "exclusive"])
@pytest.mark.parametrize("rates", [(0.5, 0.25), (0.125, 0.375), (0.0, 0.5), (1.0, 0.25)])
@pytest.mark.parametrize("shape", two_source_trees(), ids=lambda shape: str(shape.tree))
def test_a_walk_in_two_sources_has_the_distribution_that_is_computed(
    shape: SpineTree, rates: tuple[float, float], siblings: Any
) -> None:
    world = TwoSourceWorld(*rates, siblings)
    found = one_cycle(world, shape)
    assert found.tolist() == world.emitted_tokens(shape).probabilities[0].tolist()
    drawn = goose_walks.TwoSourceTree.of_library(shape)
    has_its_token = [any(drawn.spine[child] for child in below) for below in drawn.children]
    inner = [node for node, below in enumerate(drawn.children) if drawn.spine[node] and below]
    if siblings == "sequential" and all(has_its_token[node] for node in inner):  # the enumeration knows no other trees
        assert found @ np.arange(1, len(found) + 1) == goose_walks.committed(drawn, *map(Fraction, rates))


def test_a_request_keeps_its_class_and_classes_share_the_tokens() -> None:
    """The mean over requests, 4 trees; each at the error level."""
    world = ClassWorld(CLASSES)
    for seed, tree in enumerate([st.Tree.chain(1), st.Tree.chain(3), st.Tree.chain(8), st.Tree.k_ary(2, 2)]):
        walks = world.walks(tree, requests=2000, cycles=20, rng=np.random.default_rng(seed))
        tally = walks.tally(st.Provenance("test"))
        assert abs(z_of_ratio(tally, world.block_efficiency(tree))) < norm.isf(LEVEL / 2)
        emitted = world.emitted_tokens(tree)
        assert emitted.block_efficiency == pytest.approx(CLASSES.block_efficiency(tree))
        assert emitted.cycle_shares.sum() == pytest.approx(1)
        if tree.budget == 8:  # requests of one class differ by chance only, those of several classes by more
            means = walks.accepted.reshape(2000, 20).mean(1)
            within = walks.accepted.reshape(2000, 20).var(1, ddof=1).mean() / 20
            assert means.var(ddof=1) > 2 * within


def test_many_walks_at_once_are_independent_cycles() -> None:
    """Chi-squared of the accepted tokens of vectorised walks, and no correlation of consecutive cycles."""
    shape = optimal_tree(0.6, 0.3, 9)
    cases: list[tuple[SimulatedWorld, Any]] = [
        (RateWorld(st.Acceptance.by_rank([0.6, 0.2, 0.1])), st.Tree.k_ary(3, 3)),
        (RateWorld(st.Acceptance.by_depth_and_rank([[0.7, 0.1], [0.4, 0.3]])), st.Tree([-1, 0, 0, 1, 2, 2, 3])),
        (TwoSourceWorld(0.6, 0.3), shape),
        (TwoSourceWorld(0.6, 0.3, "exclusive"), shape),
    ]
    for seed, (world, tree) in enumerate(cases):
        walks = world.walks(tree, requests=40, cycles=1000, rng=np.random.default_rng(seed))
        assert chi_square(walks, world.emitted_tokens(tree)) > LEVEL
        assert walks.request.tolist() == np.repeat(np.arange(40), 1000).tolist()
        off = walks.accepted - walks.accepted.mean()
        assert abs((off[1:] * off[:-1]).mean() / off.var() * len(off) ** 0.5) < norm.isf(LEVEL / 2)


def test_worlds_of_rates_refuse_verifiers_by_name() -> None:
    tree, rng = st.Tree.chain(2), np.random.default_rng(0)
    own = RateWorld(st.Acceptance.by_rank([0.5]), TopDown(NSS()))
    assert own.block_efficiency(tree, TopDown(NSS())) == own.block_efficiency(tree) == 1.75
    refuses(r"cannot tell Block from other verifiers \(they belong to NSS\)", own.block_efficiency, tree, Block())
    spine = optimal_tree(0.5, 0.25, 3)
    for world, shape in [
        (RateWorld(st.Acceptance.by_rank([0.5])), tree),
        (ReachWorld(tree, np.array([1, 0.5, 0.25])), tree),
        (ClassWorld(CLASSES), tree),
        (TwoSourceWorld(0.5, 0.25), spine),
    ]:
        for ask in (world.block_efficiency, world.emitted_tokens):
            refuses(r"Greedy from other verifiers \(their verifier is not known\)", ask, shape, Greedy())
        with pytest.raises(st.InputError, match="rule must be left out in a world of rates"):
            world.walks(shape, None, st.DrawRule.IID, requests=1, cycles=1, rng=rng)
        refuses("requests must be at least 1, got 0", world.walks, shape, requests=0, cycles=1, rng=rng)
        refuses("shape must be", world.walks, st.OptTree(4), requests=1, cycles=1, rng=rng)
    refuses("shape must be a goose.SpineTree", TwoSourceWorld(0.5, 0.25).block_efficiency, tree)
    with pytest.raises(st.InputError, match="the tree whose reach is known"):
        ReachWorld(tree, np.array([1, 0.5, 0.25])).block_efficiency(st.Tree.chain(1))


def test_a_world_serves_requests_of_its_classes() -> None:
    """Tokens per cycle of each class in the serving simulator are those of the world, and so are those of all."""
    world, tree = ClassWorld(CLASSES), st.Tree.chain(3)
    emitted = world.emitted_tokens(tree)
    tier = simulate.Tier(tree, emitted.survival)
    assert tier.tau == pytest.approx(CLASSES.by_class(tree))
    assert tier.survival == pytest.approx(simulate.Tier.of(tree, CLASSES).survival)
    assert emitted.shares @ (1 / tier.tau) == pytest.approx(1 / world.block_efficiency(tree))


def test_what_is_no_distribution_is_refused() -> None:
    refuses("probabilities must be at least 0 and sum to 1", EmittedTokens, [1.0], [[0.5, 0.4]])
    refuses("shares must be at least 0 and sum to 1", EmittedTokens, [0.5, 0.6], [[1.0], [1.0]])
    refuses("probabilities must be at least 0", EmittedTokens, [1.0], [[np.nan, 1.0]])
    refuses("must have shapes", EmittedTokens, [0.5, 0.5], [[1.0]])


def test_run_uses_a_world_and_draws_as_its_rates_do() -> None:
    """The same seed gives the same cycles through `run` and through the world, and other worlds another tau."""
    rates = st.Acceptance.by_rank([0.6, 0.2])
    plan = st.evaluate(st.Tree.k_ary(2, 2), rates, st.Latency.constant())
    tally = simulate.run(plan, cycles=5000, seed=7)
    walks = RateWorld(rates).walks(plan.tree, requests=50, cycles=100, rng=np.random.default_rng(7))
    assert tally.emitted.tolist() == walks.tally(tally.provenance).emitted.tolist()
    assert simulate.run(plan, seed=7, cycles=5000, world=RateWorld(rates)).emitted.tolist() == tally.emitted.tolist()
    assert simulate.run(plan, world=RateWorld(st.Acceptance.by_rank([0.0]))).tau == 1
    hard = simulate.run(plan, world=ClassWorld(CLASSES), requests=2000, cycles=40_000)
    assert abs(z_of_ratio(hard, CLASSES.block_efficiency(plan.tree))) < norm.isf(LEVEL / 2)
