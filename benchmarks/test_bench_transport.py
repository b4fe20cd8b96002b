"""How long the optimal acceptance takes, as ratios in one run.

On a whole vocabulary the baseline is one np.argsort of q / p and one np.minimum(p, q).sum(): the least a scan needs.
On 20 tokens it is cvxpy (HiGHS) on the linear program from sets of drafts to tokens, built anew for each pair as a
decoder would have to; the values are checked against it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from spectheory import DrawRule, optimal_acceptance
from spectheory.otlp import Khisti, OptimalTransport
from spectheory.otlp.draft_sets import draft_sets
from spectheory.otlp.optimal import _coupling

VOCABULARY = 128_256
SMALL = 20
RULES = [DrawRule.IID, DrawRule.NO_REPLACEMENT]


def distributions(size: int) -> tuple[np.ndarray, np.ndarray]:
    """A peaked target and a draft that is it with noise, as softmax of logits."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal(size)
    p, q = np.exp(logits), np.exp(logits + rng.standard_normal(size))
    return p / p.sum(), q / q.sum()


def sort_and_overlap(p: np.ndarray, q: np.ndarray) -> float:
    np.argsort(q / p)
    return np.minimum(p, q).sum()


def linear_program(p: np.ndarray, q: np.ndarray, k: int, rule: DrawRule) -> float:
    """The most mass that moves from sets of drafts to their own tokens."""
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


class Baselines:
    """Least seconds of the baselines, and the lines that relate other least seconds to them: a busy machine adds."""

    def __init__(self, report: list[str]) -> None:
        self.large, self.small = distributions(VOCABULARY), distributions(SMALL)
        self.seconds, self.lines = {}, report
        self.seconds["argsort and overlap"] = min(_seconds(lambda: sort_and_overlap(*self.large)) for _ in range(20))
        self.optimum = {}
        for rule in RULES:
            solve = lambda rule=rule: linear_program(*self.small, 2, rule)  # noqa: E731
            self.optimum[rule] = solve()
            self.seconds[f"cvxpy, {rule.name}"] = min(_seconds(solve) for _ in range(5))
        report += [f"{name:50} {seconds * 1e3:10.3f} ms" for name, seconds in self.seconds.items()]

    def time(self, benchmark: Any, name: str, call: Callable[[], Any], baseline: str) -> Any:
        result = benchmark(call)
        if benchmark.stats is not None:
            least = benchmark.stats.stats.min
            ratio = least / self.seconds[baseline]
            benchmark.extra_info[f"ratio_to_{baseline}"] = ratio
            self.lines.append(f"{name:50} {least * 1e3:10.3f} ms {ratio:10.4f} x {baseline}")
        return result


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


@pytest.fixture(scope="module")
def baselines(report: list[str]) -> Baselines:
    return Baselines(report)


pytestmark = pytest.mark.benchmark(max_time=0.5, min_rounds=3)


@pytest.mark.parametrize("rule", DrawRule)
def test_optimal_acceptance_on_a_vocabulary(benchmark: Any, baselines: Baselines, rule: DrawRule) -> None:
    p, q = baselines.large
    k = 2 if rule is DrawRule.HUB else 4
    name = f"optimal_acceptance, {VOCABULARY:,}, k={k}, {rule.name}"
    value = baselines.time(benchmark, name, lambda: optimal_acceptance(p, q, k, rule), "argsort and overlap")
    assert 0 < value <= 1


def test_selection_on_a_vocabulary(benchmark: Any, baselines: Baselines) -> None:
    p, q = baselines.large
    name = f"Khisti().distribution, {VOCABULARY:,}, k=4"
    distribution = baselines.time(
        benchmark, name, lambda: Khisti()._distribution(p, q, [5, 6, 7, 5]), "argsort and overlap"
    )
    assert distribution.sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", RULES)
def test_optimal_acceptance_beside_a_linear_program(benchmark: Any, baselines: Baselines, rule: DrawRule) -> None:
    p, q = baselines.small
    name = f"optimal_acceptance, {SMALL}, k=2, {rule.name}"
    value = baselines.time(benchmark, name, lambda: optimal_acceptance(p, q, 2, rule), f"cvxpy, {rule.name}")
    assert value == pytest.approx(baselines.optimum[rule], abs=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_optimal_transport_beside_a_linear_program(benchmark: Any, baselines: Baselines, rule: DrawRule) -> None:
    p, q = baselines.small
    solver, sets = OptimalTransport(rule), draft_sets(q, 2, rule)

    def solve() -> float:
        _coupling.cache_clear()
        return sum(c * solver._distribution(p, q, sorted(x) * (3 - len(x)))[sorted(x)].sum() for x, c in sets.items())

    value = baselines.time(benchmark, f"OptimalTransport, {SMALL}, k=2, {rule.name}", solve, f"cvxpy, {rule.name}")
    assert value == pytest.approx(baselines.optimum[rule], abs=1e-9)
