"""Maximum flow, importance-weighted selection and optimal transport, by exact enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from spectheory import DrawRule, optimal_acceptance
from spectheory.otlp import Khisti, Naive, OptimalTransport, Solver
from spectheory.otlp.flow import max_flow
from spectheory.otlp.optimal_acceptance import draft_sets
from spectheory.otlp.without_replacement import kept_within
from tests.enumeration import CASES, enumerated, exact, random_pairs, sequences
from tests.helpers import refuses

EXCHANGED = [DrawRule.IID, DrawRule.NO_REPLACEMENT]
Pair = tuple[Any, Any]


def cases(count: int, rule: DrawRule = DrawRule.IID, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """(p, q, k) with k from 1 to 3, to 2 for HUB."""
    for i, (p, q) in enumerate(random_pairs(count, seed=seed)):
        yield p, q, 1 + i % (2 if rule is DrawRule.HUB else 3)


@cache
def subsets(size: int) -> list[list[int]]:
    return [[t for t in range(size) if code >> t & 1] for code in range(2**size)]


def least_cut(p: np.ndarray, q: np.ndarray, k: int, rule: DrawRule) -> Fraction:
    """min p(H) + 1 - Q(H) over all sets H, from the definition of the rule."""
    drafts = sequences(q, k, rule)
    within = lambda h: sum((c for x, c in drafts if set(x) <= set(h)), Fraction(0))  # noqa: E731
    return min(sum(p[h], Fraction(0)) + 1 - within(h) for h in subsets(len(p)))


def test_the_flow_is_maximal_and_keeps_to_its_capacities() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        edges = [(int(a), int(b), Fraction(int(c), 7)) for a, b, c in rng.integers(0, 6, (12, 3)) if a != b]
        flow = max_flow(edges, 0, 5)
        leaving = [sum(f for f, e in zip(flow, edges, strict=True) if e[0] == v) for v in range(6)]
        entering = [sum(f for f, e in zip(flow, edges, strict=True) if e[1] == v) for v in range(6)]
        assert all(0 <= f <= c for f, (_, _, c) in zip(flow, edges, strict=True))
        assert leaving[1:5] == entering[1:5]
        sides = [{0, *(v for v in range(1, 5) if code >> v & 1)} for code in range(0, 32, 2)]
        cuts = [sum(c for a, b, c in edges if a in side and b not in side) for side in sides]
        assert entering[5] - leaving[5] == min(cuts)
        floats = max_flow([(a, b, float(c)) for a, b, c in edges], 0, 5)
        assert sum(floats) == pytest.approx(float(sum(flow)), abs=1e-12)
    assert max_flow([(0, 1, 3), (1, 2, 2), (0, 2, 1)], 0, 2) == [2, 2, 1]


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize("solver", [Khisti(), Khisti(truncation=1), Khisti(truncation=2, guard=True)], ids=str)
def test_selection_keeps_the_target_and_its_acceptance(solver: Khisti, count: int) -> None:
    for p, q, k in cases(count):
        emitted, accepted = enumerated(solver, p, q, k, solver.rule)
        assert (emitted == p).all()
        lower, upper = solver.acceptance_bounds(p, q, k)
        assert lower <= accepted <= upper
        assert solver.acceptance(p, q, k) == accepted
        if solver.guard:
            assert accepted >= Naive().acceptance(p, q, k)
        if k == 1:
            assert accepted == Naive().acceptance(p, q, 1)
        if k <= 2 and solver.truncation >= len(p):
            assert accepted == upper


def test_the_examples_of_selection() -> None:
    fifths = exact(1, 1, 3)
    assert Khisti(truncation=1).acceptance(fifths, fifths, 2) == Fraction(29, 35)
    assert Khisti(truncation=1, guard=True).acceptance(fifths, fifths, 2) == 1
    p, q = exact(5, 0, 0, 4), exact(4, 0, 7, 1)
    _, accepted = enumerated(Khisti(), p, q, 3, DrawRule.IID)
    assert accepted == Fraction(343913, 464832)
    assert optimal_acceptance(p, q, 3) == Fraction(1357, 1728)
    assert Khisti().acceptance(p, q, 3) == accepted
    assert Khisti().acceptance(p.astype(float), q.astype(float), 3) == pytest.approx(float(accepted), abs=1e-12)
    assert float(Khisti().acceptance(torch.tensor(p.astype(float)), torch.tensor(q.astype(float)), 3)) == pytest.approx(
        float(accepted), abs=1e-12
    )
    refuses("truncation must be at least 1 token, got 0", Khisti, truncation=0)


@pytest.mark.parametrize("truncation", [1, 2, 8])
def test_selection_has_its_acceptance_for_many_drafts(truncation: int) -> None:
    """By the recursion over contests, against every sequence of drafts."""
    solver = Khisti(truncation)
    for i, (p, q) in enumerate(random_pairs(4, sizes=(2, 3), seed=7)):
        k = 4 + i % 2
        assert solver.acceptance(p, q, k) == enumerated(solver, p, q, k, solver.rule)[1]


@pytest.mark.parametrize("count", CASES)
@pytest.mark.parametrize("rule", DrawRule)
def test_optimal_transport_keeps_the_target_and_reaches_the_optimum(rule: DrawRule, count: int) -> None:
    solver = OptimalTransport(rule)
    assert solver.rule is rule
    for p, q, k in cases(count, rule, seed=1):
        emitted, accepted = enumerated(solver, p, q, k, rule)
        assert (emitted == p).all()
        assert accepted == solver.acceptance(p, q, k) == optimal_acceptance(p, q, k, rule) == least_cut(p, q, k, rule)


@pytest.mark.parametrize("rule", EXCHANGED)
def test_the_scan_finds_the_least_cut_of_six_tokens(rule: DrawRule) -> None:
    for p, q in random_pairs(40, sizes=(5, 6), seed=3):
        for k in (2, 3):
            sets = draft_sets(q, k, rule)
            assert sum(sets.values()) == 1
            cuts = [sum(p[h], 1 - sum(c for x, c in sets.items() if x <= set(h))) for h in subsets(len(p))]
            assert optimal_acceptance(p, q, k, rule) == min(cuts)


@pytest.mark.parametrize("rule", DrawRule)
def test_three_number_systems_agree(rule: DrawRule) -> None:
    solvers = [OptimalTransport(rule)]
    solvers += [Khisti(), Khisti(truncation=2), Khisti(guard=True)] if rule is DrawRule.IID else []
    for p, q, k in cases(12, rule, seed=4):
        host = p.astype(float), q.astype(float)
        device = torch.tensor(host[0]), torch.tensor(host[1])
        value = float(optimal_acceptance(p, q, k, rule))
        for distribution in (host, device):
            optimum: Any = optimal_acceptance(*distribution, k, rule)
            assert float(optimum) == pytest.approx(value, abs=1e-12)
            assert type(optimum) is (torch.Tensor if distribution is device else np.float64)
            for solver in solvers:
                _agree(solver, (p, q), distribution, k, rule)


def _agree(solver: Solver, exact_distributions: Pair, distributions: Pair, k: int, rule: DrawRule) -> None:
    """The vertex of the flow may differ where rounding breaks a tie, so distributions are compared by what they
    give.
    """
    emitted, accepted = np.zeros(len(distributions[0])), 0.0
    for drafts, chance in sequences(exact_distributions[1], k, rule):
        distribution = solver._distribution(*distributions, drafts)
        assert type(distribution) is type(distributions[0])
        assert distribution.min() >= 0
        assert float(distribution.sum()) == pytest.approx(1, abs=1e-12)
        emitted += float(chance) * np.asarray(distribution)
        accepted += float(chance) * float(distribution[sorted(set(drafts))].sum())
    np.testing.assert_allclose(emitted, exact_distributions[0].astype(float), atol=1e-12)
    if k <= 2 or isinstance(solver, OptimalTransport):
        assert accepted == pytest.approx(float(solver.acceptance(*distributions, k)), abs=1e-12)


def test_selection_among_more_tokens_than_the_truncation() -> None:
    rng = np.random.default_rng(5)
    size = 14
    p, q = rng.dirichlet(np.full(size, 0.3)), rng.dirichlet(np.full(size, 0.3))
    for solver in (Khisti(), Khisti(truncation=size)):
        emitted, accepted = np.zeros(size), 0.0
        for a, b in itertools.product(range(size), repeat=2):
            distribution = solver._distribution(p, q, [a, b])
            emitted += q[a] * q[b] * distribution
            accepted += q[a] * q[b] * (distribution[a] + (distribution[b] if a != b else 0))
        np.testing.assert_allclose(emitted, p, atol=1e-12)
        assert solver.acceptance(p, q, 2) == pytest.approx(accepted, abs=1e-12)
    assert Khisti(truncation=size).acceptance(p, q, 2) == pytest.approx(optimal_acceptance(p, q, 2), abs=1e-12)


def assert_quadrature(q: np.ndarray, k: int) -> None:
    """The chances that all k draws are among the first tokens are those of the enumerated sets of drafts."""
    within = q * 0
    for drawn, chance in draft_sets(q, k, DrawRule.NO_REPLACEMENT).items():
        within[max(drawn)] += chance
    np.testing.assert_allclose(kept_within(q.astype(float), k), within.cumsum().astype(float), atol=1e-12)


def test_the_quadrature_of_draws_without_replacement() -> None:
    for _, q in random_pairs(60, sizes=(4, 7, 9), seed=6):
        for k in (2, 3, 4):
            assert_quadrature(q, k)
    rng = np.random.default_rng(7)
    for spread in (1, 8):
        q = np.exp(spread * rng.standard_normal(5000))
        q /= q.sum()
        pairs = [q[:n] @ ((q[:n].sum() - q[:n]) / (1 - q[:n])) for n in (1, 2, 100, 4000, 5000)]
        np.testing.assert_allclose(kept_within(q, 2)[[0, 1, 99, 3999, 4999]], pairs, atol=2e-12)


def test_the_quadrature_where_weights_differ_by_many_orders() -> None:
    q = np.array([Fraction(1, 10**e) for e in (0, 3, 9, 14, 15, 15, 16)], dtype=object)
    q = q / q.sum()
    for k in (2, 3, 4, 7):
        assert_quadrature(q, k)


def test_what_cannot_be_solved_is_refused() -> None:
    p = np.full(1000, 1e-3)
    with pytest.raises(ValueError, match=r"2 drafts from 1000 tokens form 500,500 sets, at most 20,000 can be listed"):
        OptimalTransport().distribution(p, p, [0, 1])
    assert OptimalTransport().acceptance(p, p, 2) == pytest.approx(1)
    refuses("k must be at least 1, got 0", optimal_acceptance, p, p, 0)
    refuses("k must be 1 or 2 for HUB, got 3", optimal_acceptance, p, p, 3, DrawRule.HUB)
    refuses("p must be a distribution", optimal_acceptance, p * 2, p, 1)
    with pytest.raises(ValueError, match="p and q must be distributions on one vocabulary, got 1000 and 2 tokens"):
        optimal_acceptance(p, np.array([0.5, 0.5]), 1)
