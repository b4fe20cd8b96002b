"""What a node's distribution and acceptance cost on a whole vocabulary, in passes of np.minimum(p, q).sum() in the same
run.

Least times are compared, since a busy machine only adds. p and q are rows of the softmax of several nodes' logits, as
in decoding. That matters: once an array of that size was freed, the allocator keeps freed memory, and a new vector
costs no page faults; in a process that never had one, each second vector of 1 MB costs some 2 passes more.
"""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest
from beside import Beside
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory.otlp import ALL, Solver

VOCABULARY, NODES, DRAFTS = 128_256, 16, 4
Pair = tuple[np.ndarray, np.ndarray]
PASS = "np.minimum(p, q).sum()"
SOLVERS = [one for solver in ALL if not solver.small_vocabulary_only for one in (solver, *solver.variants())]


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


@pytest.fixture(scope="module")
def distributions(beside: Beside) -> Pair:
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((NODES, VOCABULARY))
    p, q = softmax(logits)[0], softmax(logits + rng.standard_normal(logits.shape))[0]
    beside.baseline(PASS, lambda: np.minimum(p, q).sum(), 300)
    return p, q


pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.5, min_rounds=20)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_acceptance(benchmark: BenchmarkFixture, beside: Beside, distributions: Pair, solver: Solver) -> None:
    k = min(DRAFTS, solver.drafts_in_reach(VOCABULARY) or DRAFTS)
    name = f"{solver}.acceptance, k = {k}"
    accepted = beside.time(benchmark, name, lambda: solver._acceptance(*distributions, k), PASS)
    assert 0 < accepted <= 1


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_distribution(benchmark: BenchmarkFixture, beside: Beside, distributions: Pair, solver: Solver) -> None:
    k = min(DRAFTS, solver.most_drafts or DRAFTS)
    name, drafts = f"{solver}.distribution, k = {k}", np.argsort(-distributions[1])[:k].tolist()
    emitted = beside.time(benchmark, name, lambda: solver._distribution(*distributions, drafts), PASS)
    assert emitted.sum() == pytest.approx(1)
