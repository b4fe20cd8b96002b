"""What a node's distribution and acceptance cost on a whole vocabulary, in passes of np.minimum(p, q).sum() in the same
run.

Least times are compared, since a busy machine only adds. p and q are rows of the softmax of several nodes' logits, as
in decoding. That matters: once an array of that size was freed, the allocator keeps freed memory, and a new vector
costs no page faults; in a process that never had one, each second vector of 1 MB costs some 2 passes more.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest

from spectheory.otlp import ALL, Solver

VOCABULARY, NODES, DRAFTS = 128_256, 16, 4
SOLVERS = [one for solver in ALL if not solver.small_vocabulary_only for one in (solver, *solver.variants())]


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


class Pass:
    """The distributions, the least seconds of one pass over them, and the lines that relate other least seconds to
    it.
    """

    def __init__(self, report: list[str]) -> None:
        rng = np.random.default_rng(0)
        logits = 3 * rng.standard_normal((NODES, VOCABULARY))
        self.p, self.q = softmax(logits)[0], softmax(logits + rng.standard_normal(logits.shape))[0]
        self.seconds, self.lines = min(self._seconds() for _ in range(300)), report
        report.append(f"{'np.minimum(p, q).sum()':55} {self.seconds * 1e3:10.3f} ms")

    def _seconds(self) -> float:
        start = perf_counter()
        np.minimum(self.p, self.q).sum()
        return perf_counter() - start

    def report(self, benchmark: Any, name: str) -> None:
        if benchmark.stats is not None:
            least = benchmark.stats.stats.min
            benchmark.extra_info["passes"] = least / self.seconds
            self.lines.append(f"{name:55} {least * 1e3:10.3f} ms {least / self.seconds:10.2f} passes")


@pytest.fixture(scope="module")
def one_pass(report: list[str]) -> Pass:
    return Pass(report)


pytestmark = pytest.mark.benchmark(max_time=0.5, min_rounds=20)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_acceptance(benchmark: Any, one_pass: Pass, solver: Solver) -> None:
    k = min(DRAFTS, solver.drafts_in_reach(VOCABULARY) or DRAFTS)
    accepted = benchmark(solver._acceptance, one_pass.p, one_pass.q, k)
    one_pass.report(benchmark, f"{solver}.acceptance, k = {k}")
    assert 0 < accepted <= 1


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_distribution(benchmark: Any, one_pass: Pass, solver: Solver) -> None:
    k = min(DRAFTS, solver.most_drafts or DRAFTS)
    drafts = np.argsort(-one_pass.q)[:k].tolist()
    distribution = benchmark(solver._distribution, one_pass.p, one_pass.q, drafts)
    one_pass.report(benchmark, f"{solver}.distribution, k = {k}")
    assert distribution.sum() == pytest.approx(1)
