"""What a node's distribution, acceptance and optimal acceptance cost on a whole vocabulary, beside a pass over it.

The baseline is one np.minimum(p, q).sum() in the same run; for the optimal acceptance one np.argsort of q / p besides,
the least that a scan needs. On 20 tokens the optimal acceptance is timed beside and checked against cvxpy (HiGHS) on
the linear program from sets of drafts to tokens. p and q are rows of the softmax of several nodes' logits, as in
decoding: in a process that never freed an array of that size, each second vector of 1 MB costs some 2 passes more.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from baselines import Beside
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory import DrawRule, optimal_acceptance
from spectheory.otlp import ALL, Solver
from spectheory.otlp.optimal_acceptance import draft_sets

VOCABULARY, NODES, DRAFTS, SMALL = 128_256, 16, 4, 20
Pair = tuple[np.ndarray, np.ndarray]
PASS, SORT = "np.minimum(p, q).sum()", "argsort and overlap"
SOLVERS = [one for solver in ALL if not solver.small_vocabulary_only for one in (solver, *solver.variants())]
pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.5, min_rounds=3)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def distributions(size: int) -> Pair:
    """A peaked target, and a draft that is the target with noise on its logits."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((NODES, size))
    return softmax(logits)[0], softmax(logits + rng.standard_normal(logits.shape))[0]


@pytest.fixture(scope="module")
def large(beside: Beside) -> Pair:
    p, q = distributions(VOCABULARY)
    beside.baseline(PASS, lambda: np.minimum(p, q).sum(), 300)
    beside.baseline(SORT, lambda: (np.argsort(q / p), np.minimum(p, q).sum()), 20)
    return p, q


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_acceptance(benchmark: BenchmarkFixture, beside: Beside, large: Pair, solver: Solver) -> None:
    k = min(DRAFTS, solver.drafts_in_reach(VOCABULARY) or DRAFTS)
    name = f"{solver}.acceptance, k = {k}"
    assert 0 < beside.time(benchmark, name, lambda: solver._acceptance(*large, k), PASS) <= 1


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_distribution(benchmark: BenchmarkFixture, beside: Beside, large: Pair, solver: Solver) -> None:
    k = min(DRAFTS, solver.most_drafts or DRAFTS)
    name, drafts = f"{solver}.distribution, k = {k}", np.argsort(-large[1])[:k].tolist()
    emitted = beside.time(benchmark, name, lambda: solver._distribution(*large, drafts), PASS)
    assert emitted.sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", DrawRule)
def test_optimal_acceptance(benchmark: BenchmarkFixture, beside: Beside, large: Pair, rule: DrawRule) -> None:
    k = 2 if rule is DrawRule.HUB else DRAFTS
    name = f"optimal_acceptance, {VOCABULARY:,}, k = {k}, {rule.name}"
    assert 0 < beside.time(benchmark, name, lambda: optimal_acceptance(*large, k, rule), SORT) <= 1


def linear_program(p: np.ndarray, q: np.ndarray, k: int, rule: DrawRule) -> float:
    """The maximum mass that can move from sets of drafts to tokens of the same set."""
    sets = draft_sets(q, k, rule)
    rows, tokens = np.array([(row, token) for row, drafts in enumerate(sets) for token in drafts]).T
    ones, columns = np.ones(len(rows)), np.arange(len(rows))
    of_set = sp.csr_array((ones, (rows, columns)), shape=(len(sets), len(rows)))
    of_token = sp.csr_array((ones, (tokens, columns)), shape=(len(p), len(rows)))
    mass = cp.Variable(len(rows), nonneg=True)
    constraints: list[Any] = [of_set @ mass <= np.array([*sets.values()]), of_token @ mass <= p]
    value: Any = cp.Problem(cp.Maximize(cp.sum(mass)), constraints).solve(solver=cp.HIGHS)
    return value


@pytest.mark.parametrize("rule", [DrawRule.IID, DrawRule.NO_REPLACEMENT])
def test_beside_a_linear_program(benchmark: BenchmarkFixture, beside: Beside, rule: DrawRule) -> None:
    p, q = distributions(SMALL)
    solved = f"cvxpy, {rule.name}"
    best = beside.baseline(solved, lambda: linear_program(p, q, 2, rule), 5)
    name = f"optimal_acceptance, {SMALL}, k = 2, {rule.name}"
    value = beside.time(benchmark, name, lambda: optimal_acceptance(p, q, 2, rule), solved)
    assert value == pytest.approx(best, abs=1e-9)
