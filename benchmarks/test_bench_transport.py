"""Times of the optimal acceptance, as ratios to baselines of the same run.

On a whole vocabulary the baseline is one np.argsort of q / p and one np.minimum(p, q).sum(): the least a scan needs.
On 20 tokens it is cvxpy (HiGHS) on the linear program from sets of drafts to tokens, built anew for each pair as a
decoder would have to; the values are checked against it.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from beside import Beside
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory import DrawRule, optimal_acceptance
from spectheory.otlp import Khisti, OptimalTransport
from spectheory.otlp.draft_sets import draft_sets
from spectheory.otlp.optimal import _coupling

VOCABULARY = 128_256
SMALL = 20
SORT = "argsort and overlap"
Pair = tuple[np.ndarray, np.ndarray]
RULES = [DrawRule.IID, DrawRule.NO_REPLACEMENT]


def distributions(size: int) -> Pair:
    """A peaked target, and a draft that is the target with noise on its logits."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal(size)
    p, q = np.exp(logits), np.exp(logits + rng.standard_normal(size))
    return p / p.sum(), q / q.sum()


def sort_and_overlap(p: np.ndarray, q: np.ndarray) -> float:
    np.argsort(q / p)
    return np.minimum(p, q).sum()


def linear_program(p: np.ndarray, q: np.ndarray, k: int, rule: DrawRule) -> float:
    """The maximum mass that can move from sets of drafts to tokens of the same set."""
    sets = draft_sets(q, k, rule)
    pairs = [(row, token) for row, drafts in enumerate(sets) for token in drafts]
    rows, tokens = np.array(pairs).T
    ones, columns = np.ones(len(pairs)), np.arange(len(pairs))
    of_set = sp.csr_array((ones, (rows, columns)), shape=(len(sets), len(pairs)))
    of_token = sp.csr_array((ones, (tokens, columns)), shape=(len(p), len(pairs)))
    mass = cp.Variable(len(pairs), nonneg=True)
    constraints: list[Any] = [of_set @ mass <= np.array([*sets.values()]), of_token @ mass <= p]
    value: Any = cp.Problem(cp.Maximize(cp.sum(mass)), constraints).solve(solver=cp.HIGHS)
    return value


@pytest.fixture(scope="module")
def large(beside: Beside) -> Pair:
    found = distributions(VOCABULARY)
    beside.baseline(SORT, lambda: sort_and_overlap(*found), 20)
    return found


@pytest.fixture
def solved(beside: Beside, rule: DrawRule) -> str:
    """The name of the linear program's time under this rule."""
    name = f"cvxpy, {rule.name}"
    beside.baseline(name, lambda: linear_program(*distributions(SMALL), 2, rule), 5)
    return name


pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.5, min_rounds=3)


@pytest.mark.parametrize("rule", DrawRule)
def test_optimal_acceptance_on_a_vocabulary(
    benchmark: BenchmarkFixture, beside: Beside, large: Pair, rule: DrawRule
) -> None:
    k = 2 if rule is DrawRule.HUB else 4
    name = f"optimal_acceptance, {VOCABULARY:,}, k={k}, {rule.name}"
    assert 0 < beside.time(benchmark, name, lambda: optimal_acceptance(*large, k, rule), SORT) <= 1


def test_selection_on_a_vocabulary(benchmark: BenchmarkFixture, beside: Beside, large: Pair) -> None:
    name = f"Khisti().distribution, {VOCABULARY:,}, k=4"
    emitted = beside.time(benchmark, name, lambda: Khisti()._distribution(*large, [5, 6, 7, 5]), SORT)
    assert emitted.sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", RULES)
def test_optimal_acceptance_beside_a_linear_program(
    benchmark: BenchmarkFixture, beside: Beside, solved: str, rule: DrawRule
) -> None:
    p, q = distributions(SMALL)
    name = f"optimal_acceptance, {SMALL}, k=2, {rule.name}"
    value = beside.time(benchmark, name, lambda: optimal_acceptance(p, q, 2, rule), solved)
    assert value == pytest.approx(beside.results[solved], abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_optimal_transport_beside_a_linear_program(
    benchmark: BenchmarkFixture, beside: Beside, solved: str, rule: DrawRule
) -> None:
    p, q = distributions(SMALL)
    solver, sets = OptimalTransport(rule), draft_sets(q, 2, rule)

    def solve() -> float:
        _coupling.cache_clear()
        return sum(c * solver._distribution(p, q, sorted(x) * (3 - len(x)))[sorted(x)].sum() for x, c in sets.items())

    value = beside.time(benchmark, f"OptimalTransport, {SMALL}, k=2, {rule.name}", solve, solved)
    assert value == pytest.approx(beside.results[solved], abs=1e-9)
