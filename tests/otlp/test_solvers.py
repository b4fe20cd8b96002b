"""The node solvers: exact enumeration, three number systems, published examples, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from spectheory import DrawRule
from spectheory.core.arrays import excess
from spectheory.otlp import ALL, NSS, RRS, GreedyTopK, Solver, SpecHub, SpecInfer, SpecTr, estimated_acceptance
from spectheory.otlp.rrs import _accepted_of_two
from tests.enumeration import CASES, enumerated, exact, random_distribution, random_pairs, sequences
from tests.helpers import refuses

SOLVERS = list(ALL)
Case = tuple[np.ndarray, np.ndarray, int]


def cases(count: int, solver: Solver, seed: int = 0, sizes: tuple[int, ...] = (2, 3, 4)) -> Iterator[Case]:
    """(p, q, k) with k from 1 to 3, or to the maximum number of drafts of the solver."""
    for i, (p, q) in enumerate(random_pairs(count, sizes, seed)):
        yield p, q, 1 + i % (solver.most_drafts or 3)


def fixed(solver: Solver, p: np.ndarray, q: np.ndarray, k: int) -> Solver:
    """The solver with its factor found once, since the solver would find it again for every draft."""
    return SpecTr(rho=solver.factor(p, q, k)) if isinstance(solver, SpecTr) else solver


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize(("solver", "rule"), [(solver, rule) for solver in SOLVERS for rule in solver.rules])
def test_the_target_is_kept_and_the_acceptance_is_exact(solver: Solver, rule: DrawRule, count: int) -> None:
    for p, q, k in cases(count, solver):
        if rule is DrawRule.IID_APART:  # a solver sees tokens, not nodes: nothing new to enumerate
            assert sequences(q, k, rule) == sequences(q, k, DrawRule.IID)
            continue
        k = min(k, 2) if rule is DrawRule.HUB else k
        emitted, accepted = enumerated(fixed(solver, p, q, k), p, q, k, rule)
        assert (emitted == p).all(), (p, q, k)
        if rule is solver.rule:
            assert accepted == solver.acceptance(p, q, k), (p, q, k)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(3, 2)])
def test_every_factor_from_rho_star_on_keeps_the_target(share: Fraction) -> None:
    """Beyond k, too: 3/2 of the way from rho* to k."""
    for p, q, k in cases(24, SpecTr(), seed=1):
        lowest = SpecTr().factor(p, q, k)
        solver = SpecTr(rho=lowest + share * (k - lowest))
        emitted, accepted = enumerated(solver, p, q, k, DrawRule.IID)
        assert (emitted == p).all()
        assert accepted == solver.acceptance(p, q, k)


@pytest.mark.parametrize("count", CASES)
def test_the_factor_is_the_upper_end_of_a_bracket_of_the_smallest_root(count: int) -> None:
    def gap(p: np.ndarray, q: np.ndarray, k: int, rho: Fraction) -> Fraction:
        b = sum((min(x / rho, y) for x, y in zip(p, q, strict=True)), Fraction(0))
        return 1 - (1 - b) ** k - rho * b

    for p, q, k in cases(count, SpecTr(), seed=2):
        rho, width = SpecTr().factor(p, q, k), Fraction(k - 1, 2**32)
        assert gap(p, q, k, rho) <= 0
        assert rho == 1 or gap(p, q, k, rho - width) > 0
        assert rho.denominator <= 2**32
        assert (SpecTr()._distribution(p, q, [0] * k) == SpecTr(rho=rho)._distribution(p, q, [0] * k)).all()
        best = [SpecTr(rho=rho + (k - rho) * Fraction(i, 2)).acceptance(p, q, k) for i in range(3)]
        assert SpecTr(candidates=3).acceptance(p, q, k) == max(best)
        assert SpecTr().acceptance(p, q, k) == best[0]


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_three_number_systems_agree(solver: Solver, count: int) -> None:
    rng = np.random.default_rng(3)
    for p, q, k in cases(count, solver, seed=3):
        systems = [(p.astype(float), q.astype(float))]
        systems += [(torch.tensor(systems[0][0]), torch.tensor(systems[0][1]))]
        same, accepted = fixed(solver, p, q, k), solver.acceptance(p, q, k)
        drafts = solver.rule.children(q, k, rng)
        distribution = same._distribution(p, q, drafts).astype(float)
        for target, draft in systems:
            found = same.distribution(target, draft, drafts)
            assert type(found) is type(target)
            np.testing.assert_allclose(found, distribution, atol=1e-12)
            assert abs(float(same.acceptance(target, draft, k)) - accepted) < 1e-12
            # the factor may be one step of the bracket off: (k - 1) / 2^32
            assert abs(float(solver.acceptance(target, draft, k)) - accepted) < 1e-8
            np.testing.assert_allclose(solver.distribution(target, draft, drafts).sum(), 1, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_distribution_is_a_new_array_and_whole_numbers_will_do(solver: Solver) -> None:
    p, q = np.array([0, 1, 0]), np.array([0, 0, 1])
    distribution = solver.distribution(p, q, [2])
    np.testing.assert_array_equal(distribution, p)
    distribution[:] = 7
    np.testing.assert_array_equal(p, [0, 1, 0])
    assert solver.acceptance(p, q, 1) == 0
    half = torch.tensor([0.5, 0.5])
    np.testing.assert_allclose(
        solver.distribution(half, half, [0]), [0.5, 0.5] if solver == NSS() else [1, 0], atol=1e-6
    )


def test_named_examples() -> None:
    """Section 1, 4, 6 and 7 of the notes on verifiers."""
    p, q = exact(1, 2), exact(2, 1)
    assert float(SpecTr().factor(p, q, 2)) == pytest.approx((5 + 13**0.5) / 6, abs=1e-9)
    assert float(SpecTr().acceptance(p, q, 2)) == pytest.approx(0.8114195, abs=1e-7)
    assert SpecTr(rho=2).acceptance(p, q, 2) == SpecTr(candidates=2).acceptance(p, q, 2) == Fraction(5, 6)
    assert SpecInfer()._distribution(p, q, [0, 0])[0] == Fraction(1, 2)
    assert SpecInfer().acceptance(exact(0, 1, 3), exact(2, 0, 2), 2) == Fraction(3, 4)
    p, q = exact(0, 2, 3), exact(1, 1, 3)
    assert RRS().acceptance(p, q, 2) == Fraction(17, 20)
    assert float(SpecTr().acceptance(p, q, 2)) == pytest.approx(0.872, abs=5e-4)
    assert GreedyTopK().acceptance(exact(0, 1, 0), exact(1, 2, 2), 2) == 1
    assert GreedyTopK().acceptance(exact(0, 0, 1), exact(2, 2, 1), 2) == Fraction(1, 3)
    assert NSS().acceptance(exact(0, 0, 1), exact(2, 2, 1), 2) == Fraction(9, 25)


def test_more_drafts_than_tokens() -> None:
    """Every token is drafted: the emitted one is among them."""
    p, q = exact(1, 2, 3), exact(3, 2, 1)
    for solver in (RRS(), GreedyTopK()):
        for k in (3, 4, 5):
            assert solver.acceptance(p, q, k) == enumerated(solver, p, q, k, solver.rule)[1] == 1
    one = exact(1, 0)
    for solver in SOLVERS:
        assert (solver._distribution(exact(1, 1), one, [0]) == exact(1, 1)).all()


def test_recursion_and_running_sums_of_rejection_without_replacement() -> None:
    rng = np.random.default_rng(6)
    for _ in range(4):
        p, q = random_distribution(rng, 5), random_distribution(rng, 5)
        assert enumerated(RRS(), p, q, 4, DrawRule.NO_REPLACEMENT)[1] == RRS().acceptance(p, q, 4)
    p, q = rng.dirichlet(np.full(300, 0.1)), rng.dirichlet(np.full(300, 0.1))
    later = [
        share * np.minimum(excess(p, q) / excess(p, q).sum(), np.where(np.arange(300) == x, 0, q) / (1 - q[x])).sum()
        for x, share in enumerate(excess(q, p))
    ]
    assert _accepted_of_two(p, q) == pytest.approx(np.minimum(p, q).sum() + sum(later), abs=1e-12)
    refuses(r"V = 300 and k = 4, .*: use estimated_acceptance\(RRS\(\), p, q, k, samples", RRS().acceptance, p, q, 4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_estimate_is_unbiased(solver: Solver) -> None:
    p, q = exact(1, 3, 2, 2), exact(4, 1, 2, 1)
    mean, error = estimated_acceptance(solver, p, q, 2, samples=300, rng=np.random.default_rng(7))
    # normal, 5 standard errors: level 6e-7
    assert abs(mean - solver.acceptance(p, q, 2)) <= 5 * error
    assert 0 < error < 0.04


BAD = [
    (np.array([0.5, 0.4, 0.2]), "p must be a distribution"),
    (np.array([np.nan, 0.5, 0.5]), "p must be a distribution"),
    (np.full((1, 3), 1 / 3), r"p must be one distribution of shape \(V,\), got shape \(1, 3\)"),
    ([0.5, 0.25, 0.25], "p must be one distribution"),
    (np.array([0.5, 0.5]), "one vocabulary, got 2 and 3 tokens"),
]


@pytest.mark.parametrize("solver", SOLVERS)
def test_bad_input_is_refused(solver: Solver) -> None:
    q: Any = np.array([0.5, 0.5, 0.0])
    for p, message in BAD:
        refuses(message, solver.distribution, p, q, [0])
        refuses(message, solver.sample, p, q, [0], np.random.default_rng(0))
        refuses(message, solver.acceptance, p, q, 1)
        refuses(message.replace("p must", "q must").replace("2 and 3", "3 and 2"), solver.acceptance, q, p, 1)
    for drafts, message in [
        ([], "drafts must name at least one token"),
        ([-1], "drafts must be tokens between 0 and 2, got -1"),
        ([0, 2], "token 2, which q gives probability 0"),
    ]:
        refuses(message, solver.distribution, q, q, drafts)
        refuses(message, solver.sample, q, q, drafts, np.random.default_rng(0))
    refuses("k must be between 1 and 50,000,000, got 0", solver.acceptance, q, q, 0)


def test_bad_factors_and_too_many_drafts_are_refused() -> None:
    p, q = exact(1, 2), exact(2, 1)
    for target, draft in ((p, q), (p.astype(float), q.astype(float))):
        with pytest.raises(ValueError, match=r"rho must be at least rho\* = 1.434258\d+ .* k = 2 drafts, got 1.4"):
            SpecTr(rho=1.4).acceptance(target, draft, 2)
        refuses("rho must be at least rho.*, got 1.4", SpecTr(rho=1.4).distribution, target, draft, [0, 1])
    sure, unsure = exact(1, 0), exact(1, 9)  # 1 is lossless here, and below rho*
    with pytest.raises(ValueError, match=r"rho must be at least rho\* = 1.9 .*, got 1: smaller factors may be lossy"):
        SpecTr(rho=1).distribution(sure, unsure, [0, 1])
    for rho in (0.5, float("inf"), float("nan")):
        refuses(f"rho must be a number from 1 to 1e9, got {rho}", SpecTr, rho=rho)
    refuses("candidates must be at least 1, got 0", SpecTr, candidates=0)
    refuses("give rho or candidates, not both, got rho=2 and candidates=3", SpecTr, rho=2, candidates=3)
    for refused in (lambda: SpecHub().acceptance(p, q, 3), lambda: SpecHub().distribution(p, q, [0, 1, 0])):
        refuses("SpecHub drafts at most 2 tokens at a node, got 3: use GreedyTopK", refused)


@pytest.mark.parametrize("peak", [20.0, 30.0, 36.0, 37.0, 60.0])
def test_two_rounds_without_replacement_from_a_distribution_with_one_tall_peak(peak: float) -> None:
    """Where one token has all but 1e-16 of q, 1 - q would cancel; the distribution of the drafts is the other path to
    it.
    """
    p, logits = np.array([0.4, 0.3, 0.2, 0.1]), np.array([peak, 0.0, 0.0, 0.0])
    q = np.exp(logits - peak) / np.exp(logits - peak).sum()
    others = q[1:].sum()
    drawn = [([0, x], q[0] * q[x] / others) for x in (1, 2, 3)]
    expected = sum(chance * RRS().distribution(p, q, drafts)[drafts].sum() for drafts, chance in drawn)
    assert RRS().acceptance(p, q, 2) == pytest.approx(expected, abs=1e-7)


def test_rrs_goes_on_where_what_is_left_of_q_is_next_to_nothing() -> None:
    """At temperature 0.1 the second draft has probability 4e-41, and 1 / q is beyond float32."""
    p, q = (torch.softmax(torch.tensor(logits) / 0.1, 0).numpy() for logits in ([0.0, 0, 9, 9], [9.3, 0, -2, -2]))
    assert 0 < q[1] < np.finfo(np.float32).tiny
    np.testing.assert_allclose(RRS()._distribution(p, q, [0, 1]), p, atol=1e-6)
    assert {RRS()._sample(p, q, [0, 1], np.random.default_rng(seed)) for seed in range(20)} == {2, 3}


def by_orders(p: np.ndarray, q: np.ndarray, drafts: list[int]) -> list[Fraction]:
    """The distribution of the emitted token, order by order."""
    total = [Fraction(0)] * len(p)
    for order in permutations(drafts):
        left, reached = list(p), Fraction(1, math.factorial(len(drafts)))
        for token in order:
            accept = min(Fraction(1), left[token] / q[token])
            total[token] += reached * accept
            reached *= 1 - accept
            left = [max(a - b, Fraction(0)) for a, b in zip(left, q, strict=True)]
            mass = sum(left)
            left = [a / mass for a in left] if mass else list(p)
        total = [a + reached * b for a, b in zip(total, left, strict=True)]
    return total


def test_specinfer_has_the_distribution_of_all_orders_and_thirty_drafts_take_no_time() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        size, count = int(rng.integers(2, 6)), int(rng.integers(1, 6))
        p, q = exact(*rng.integers(0, 9, size).tolist()[:-1], 1), exact(*rng.integers(1, 9, size).tolist())
        drafts = rng.integers(0, size, count).tolist()
        assert SpecInfer().distribution(p, q, drafts).tolist() == by_orders(p, q, drafts)
    p, q = rng.dirichlet(np.ones(64)), rng.dirichlet(np.ones(64))
    found = SpecInfer().distribution(p, q, list(range(30)))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_a_float32_softmax_of_a_large_vocabulary_is_a_distribution() -> None:
    """Its sum is 1.00002 there, which would be a mistake in a distribution on few tokens."""
    for size, refused in ((49_152, False), (1000, True)):
        p = np.full(size, 1.00002 / size, np.float32)
        if refused:
            refuses("p must be a distribution", NSS().distribution, p, p, [0])
        else:
            NSS().distribution(p, p, [0])
