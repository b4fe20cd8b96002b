"""Classes of contexts: predictions against an enumerated world, fits to exact counts, intervals, and refusals."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import spectheory as st
from spectheory.yields import NoClassesError, RequestClasses
from spectheory.yields.request_classes import mixing_weights

SHARES, ALPHAS = (Fraction(2, 5), Fraction(3, 5)), (Fraction(1, 4), Fraction(4, 5))
TREES = (st.Tree.chain(1), st.Tree.chain(4), st.Tree.chain(9), st.Tree.k_ary(2, 3), st.Tree([-1, 0, 0, 0, 1, 1, 2, 4]))
LATER = (Fraction(1, 3), Fraction(1, 6))
"""Chances of ranks 1 and 2, given that rank 0 is wrong."""


def class_tau(tree: st.Tree, alpha: Fraction, later: tuple[Fraction, ...]) -> Fraction:
    """E[tau] in one class, by enumeration of the ranks of the next tokens; the last outcome is a token of no rank."""
    outcomes = [alpha, *((1 - alpha) * part for part in later)]
    outcomes.append(1 - sum(outcomes, Fraction(0)))
    total = Fraction(0)
    for ranks in product(range(len(outcomes)), repeat=tree.max_depth):
        node, kept = 0, 0
        for rank in ranks:
            if rank >= len(tree.child_lists[node]) or rank == len(outcomes) - 1:
                break
            node, kept = tree.child_lists[node][rank], kept + 1
        chance = Fraction(1)
        for rank in ranks:
            chance *= outcomes[rank]
        total += chance * (kept + 1)
    return total


def world_tau(tree: st.Tree, later: tuple[Fraction, ...] = ()) -> Fraction:
    """Tokens per cycle where a share of the tokens is in each class."""
    cycles = [share / class_tau(tree, alpha, later) for share, alpha in zip(SHARES, ALPHAS, strict=True)]
    return 1 / sum(cycles, Fraction(0))


def histogram(length: int, shares: tuple[Fraction, ...], alphas: tuple[Fraction, ...]) -> np.ndarray:
    """Of a million cycles, the numbers that keep 0..length tokens in a world with these classes, rounded."""
    cycles = [share / sum(a**d for d in range(length + 1)) for share, a in zip(shares, alphas, strict=True)]
    reached = [sum(n * a**d for n, a in zip(cycles, alphas, strict=True)) for d in range(length + 1)] + [0]
    return np.array([round(10**6 * (before - after) / reached[0]) for before, after in pairwise(reached)])


def fitted(kept: np.ndarray) -> RequestClasses:
    """Classes by the numbers of cycles of a chain that keep 0, 1, ... tokens."""
    reached = kept[::-1].cumsum()[::-1]
    rates = st.Acceptance.from_counts(reached[1:, None], reached[:-1])
    return RequestClasses.from_acceptance(rates, st.Tree.chain(len(kept) - 1))


def classes(shares: list[float], rates: list[float], **fields: object) -> RequestClasses:
    """Classes made by hand: falls, later ranks and limits that say nothing, unless given."""
    none = {"falls": np.ones(2), "later": np.zeros((2, 0)), "counted": None}
    limits = {"low": np.zeros(2), "high": np.ones(2)}
    return RequestClasses(np.array(shares), np.array(rates), **{**none, **limits, **fields})  # pyrefly: ignore[bad-argument-type]


def tau(found: RequestClasses, length: int) -> float:
    return found.block_efficiency(st.Tree.chain(length))


def near(found: RequestClasses, rate: float) -> float:
    """Share of the tokens in classes of about this rate."""
    return float(found.shares[abs(found.rates - rate) < 0.1].sum())


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_tau_is_that_of_an_enumerated_world(tree: st.Tree) -> None:
    """Later ranks share what rank 0 misses, and a class has a share of the tokens."""
    later = LATER if tree.max_depth < 5 else ()
    found = classes([0.4, 0.6], [0.25, 0.8], later=np.tile(np.array(later, float), (2, 1)).reshape(2, -1))
    assert found.block_efficiency(tree) == pytest.approx(float(world_tau(tree, later)), rel=1e-12)


@pytest.mark.parametrize("length", [4, 6])
def test_the_counts_of_a_chain_give_back_the_world(length: int) -> None:
    """Four depths identify two classes; tau of every other chain follows."""
    found = fitted(histogram(length, SHARES, ALPHAS))
    assert near(found, 0.25) == pytest.approx(0.4, abs=1e-3)
    assert near(found, 0.8) == pytest.approx(0.6, abs=1e-3)
    assert found.falls.tolist() == [1] * length
    for tree in TREES:
        if tree.is_chain:
            assert found.block_efficiency(tree) == pytest.approx(float(world_tau(tree)), rel=1e-4)


def test_a_rate_that_falls_for_all_classes_is_found() -> None:
    """One class of rate 0.7 whose later tokens are drafted 0.8 times as well."""
    reached = np.cumprod([1, 0.7, 0.56, 0.56, 0.56])
    counts = np.rint(1e8 * (reached - np.append(reached[1:], 0))).astype(int)
    found = fitted(counts)
    assert found.falls == pytest.approx([1, 0.8, 0.8, 0.8], abs=2e-3)
    exact = 1 + 0.7 * (1 - 0.56**8) / (1 - 0.56)
    assert tau(found, 8) == pytest.approx(exact, rel=1e-3)


def test_counts_of_all_ranks_of_a_tree() -> None:
    """A node is left through any of its three children; the classes differ in the rate of rank 0."""
    tree, later = st.Tree.k_ary(3, 5), np.array(LATER, float)
    alphas, shares = np.array(ALPHAS, float), np.array(SHARES, float)
    cycles = shares / [float(class_tau(st.Tree.k_ary(3, 5), alpha, LATER)) for alpha in ALPHAS]
    rates = np.concatenate([alphas[:, None], (1 - alphas)[:, None] * later], axis=1)
    passed = rates.sum(1)
    hits = np.array([cycles @ (passed[:, None] ** d * rates) for d in range(5)])
    trials = np.array([cycles @ passed**d for d in range(5)])
    scale = 1e9
    table = st.Acceptance.from_counts(np.floor(scale * hits).astype(int), np.ceil(scale * trials).astype(int))
    found = RequestClasses.from_acceptance(_with_ends(table), tree)
    assert near(found, 0.25) == pytest.approx(0.4, abs=0.01)
    for other in (st.Tree.chain(9), st.Tree.k_ary(2, 3)):
        exact = float(world_tau(other, LATER if other.max_depth < 5 else ()))
        assert found.block_efficiency(other) == pytest.approx(exact, rel=2e-3)


def _with_ends(table: st.Acceptance) -> st.Acceptance:
    """The same counts, with no more trials at a depth than hits before it."""
    assert table.hits is not None
    assert table.trials is not None
    trials = np.append(table.trials[0], table.hits.sum(1)[:-1])
    return st.Acceptance.from_counts(table.hits, trials)


MIXTURES = hs.lists(
    hs.tuples(hs.integers(1, 20), hs.integers(0, 20)), min_size=1, max_size=4, unique_by=lambda pair: pair[1]
)


@given(mixture=MIXTURES, lengths=hs.tuples(hs.integers(0, 12), hs.integers(0, 12)))
def test_properties_of_tau(mixture: list[tuple[int, int]], lengths: tuple[int, int]) -> None:
    """Non-decreasing in the length, between the classes, at most the mean, and the product of rates of one class."""
    shares = np.array([share for share, _ in mixture]) / sum(share for share, _ in mixture)
    found = classes(shares.tolist(), [rate / 20 for _, rate in mixture])
    short, long = sorted(lengths)
    assert tau(found, short) <= tau(found, long) * (1 + 1e-12)
    each = found.by_class(st.Tree.chain(long))
    assert each.min() * (1 - 1e-12) <= tau(found, long) <= float(shares @ each) * (1 + 1e-12)
    one = classes([1.0], [mixture[0][1] / 20])
    exact = st.block_efficiency(st.Tree.k_ary(2, 3), st.Acceptance.by_rank([mixture[0][1] / 20]))
    assert one.block_efficiency(st.Tree.k_ary(2, 3)) == pytest.approx(exact, rel=1e-12)


@given(mixture=MIXTURES, length=hs.integers(2, 6), other=hs.integers(1, 12))
@settings(max_examples=20)
def test_the_interval_contains_every_world_with_these_counts(
    mixture: list[tuple[int, int]], length: int, other: int
) -> None:
    """Also where the counts do not identify the classes. Exact counts: no chance is involved."""
    total = sum(share for share, _ in mixture)
    shares = tuple(Fraction(share, total) for share, _ in mixture)
    alphas = tuple(Fraction(rate, 20) for _, rate in mixture)
    counts = histogram(length, shares, alphas)
    try:
        found = fitted(counts)
    except NoClassesError:
        assert counts[2:].sum() < 100
        return
    truth = float(1 / sum(n / class_tau(st.Tree.chain(other), a, ()) for n, a in zip(shares, alphas, strict=True)))
    low, high = found.block_efficiency_interval(st.Tree.chain(other))
    assert found.falls.tolist() == [1] * len(found.falls)
    assert low <= tau(found, other) <= high
    assert low * (1 - 1e-6) <= truth <= high * (1 + 1e-6)
    assert tau(found, length) == pytest.approx(float(counts @ np.arange(1, length + 2) / counts.sum()), rel=2e-3)


@given(counts=hs.lists(hs.integers(0, 1000), min_size=3, max_size=6).filter(any), seed=hs.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_no_other_weights_are_more_likely(counts: list[int], seed: int) -> None:
    """Lindsay's condition at the weights that were found, which proves that they are the maximum."""
    cells = np.random.default_rng(seed).dirichlet(np.ones(len(counts)), 30).T
    weights = mixing_weights(cells, np.array(counts))
    seen = np.array(counts) > 0
    gradient = (np.array(counts)[seen] / (cells[seen] @ weights)) @ cells[seen]
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    assert gradient.max() - sum(counts) <= 2e-3


RISING = np.array([50_000, 2_000, 1_000, 500, 30_000])
"""Most cycles end at once or never, and yet the rate is 0.40 first, 0.94 then: classes."""
JAGGED = np.array([20_000, 56_000, 4_800, 3_840, 15_360])
"""Rates of 0.8, 0.3, 0.8 and 0.8: no class has a rate that recovers."""


def test_counts_that_no_mixture_gives_are_refused() -> None:
    assert len(fitted(RISING).shares) > 1
    message = (
        r"no mixture of classes agrees with the counts: .* of the cycles accept at least \d tokens \(.*\), the near"
    )
    with pytest.raises(NoClassesError, match=message):
        fitted(JAGGED)


@pytest.mark.parametrize(
    ("accepted", "error", "message"),
    [
        (np.array([500, 500]), NoClassesError, "classes need counts of at least 2 depths, got 1"),
        (np.array([5000, 50, 40]), NoClassesError, "record a chain of 2 or more tokens, or more cycles"),
        (np.array([5, 5, 5]), st.InputError, r"trials\[0\] is 15, fewer than min_trials=100"),
    ],
)
def test_histograms_that_are_refused(accepted: np.ndarray, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fitted(accepted)


def test_acceptances_that_are_refused() -> None:
    with pytest.raises(st.InputError, match="acceptance must have counts to fit classes"):
        RequestClasses.from_acceptance(st.Acceptance.by_rank([0.6]), st.Tree.chain(3))
    rates = st.Acceptance.from_counts(np.array([[500], [400]]), np.array([1000, 600]))
    with pytest.raises(st.InputError, match=r"trials\[1\] of acceptance is 600, but only 500 nodes were accepted"):
        RequestClasses.from_acceptance(rates, st.Tree.chain(2))
