"""Times of the searches beside published algorithms in plain Python in the same run.

Rates: `falling` with rank, which best-first search takes; `noisy`, the same times exp(0.3 N(0, 1)), as measured tables
are; `shuffled`, the falling ones of each depth in random order, far from anything measured. The last two are out of
order and take the exact program. They are 8 depths x 16 ranks, or what the line says.

Baselines: Sequoia's dynamic program (arXiv 2402.12374, tree construction), on rates by rank with a depth limit, as its
four loops in plain Python; the heap of best-first search; the best tree of two sources, not compiled. Rows named `same
problem` solve exactly what their baseline solves, and are checked against it. At 100,000 nodes Sequoia's loops would
take half a day; there the ratio is to its program of 511 nodes. Targets: the whole table in 10 ms, the exact tree of
100,000 nodes in 1 s, best-first search in 20 ms, the tree of two sources in 50 microseconds.
"""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest
from baselines import FALLING, NOISY, SHUFFLED, Beside, measured_like
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory.core.acceptance import Acceptance
from spectheory.goose import optimal_tree
from spectheory.goose.optimal import take
from spectheory.goose.two_source import sibling_rule
from spectheory.search import best_first, best_tree, exact, yield_table
from spectheory.yields import block_efficiency

MAX_DEPTH = 9
FOUR, HEAP = "four loops, falling, 511 x 9 x 32", "heap in plain Python, falling, 100,000"
BUDGETS = [1_000, 10_000, 100_000]
TABLE = {"budget": 511, "max_depth": MAX_DEPTH, "max_fanout": 32}
BY_RANK = {"falling": measured_like(1, 32, 0), "noisy": measured_like(1, 32, 0.3)}


def four_loops(rates: list[float], budget: int, max_depth: int) -> np.ndarray:
    """(max_depth + 1, budget + 1) best block efficiency; `best[l][b][m]` is over m nodes and l levels, root included.

    Of them b are children of the root. Entry [d, n] of the result is for exactly n drafted nodes, -inf if too many.
    """
    never = float("-inf")
    best = [[[never] * (budget + 2) for _ in range(len(rates) + 1)] for _ in range(max_depth + 2)]
    any_width = [[never] * (budget + 2) for _ in range(max_depth + 2)]
    for levels in range(1, max_depth + 2):
        best[levels][0][1] = any_width[levels][1] = 1.0
        below = any_width[levels - 1]
        for nodes in range(2, budget + 2):
            for b, rate in enumerate(rates, start=1):
                before, top = best[levels][b - 1], never
                for split in range(1, nodes):
                    value = before[split] + rate * below[nodes - split]
                    if value > top:
                        top = value
                best[levels][b][nodes] = top
            any_width[levels][nodes] = max(of_width[nodes] for of_width in best[levels])
    return np.array(any_width)[1:, 1:]


@pytest.fixture(scope="module")
def baselines(beside: Beside) -> Beside:
    for name, acceptance in BY_RANK.items():
        rates = acceptance.table[0].tolist()
        beside.baseline(f"four loops, {name}, 511 x 9 x 32", lambda rates=rates: four_loops(rates, 511, MAX_DEPTH), 2)
    beside.baseline(HEAP, lambda: best_first.grow(np.array(FALLING.table), 100_000, 100_000), 3)
    return beside


pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.5, min_rounds=3)


@pytest.mark.parametrize("name", BY_RANK)
def test_whole_yield_table(benchmark: BenchmarkFixture, baselines: Beside, name: str) -> None:
    baseline = f"four loops, {name}, 511 x 9 x 32"
    search = lambda: yield_table(BY_RANK[name], **TABLE)  # noqa: E731
    table = baselines.time(benchmark, f"same problem, yield_table, {name}", search, baseline)
    at_most = np.maximum.accumulate(baselines.results[baseline], axis=1)
    np.testing.assert_allclose(table, at_most, rtol=1e-12)


@pytest.mark.parametrize("name", BY_RANK)
def test_tree_by_the_exact_program(benchmark: BenchmarkFixture, baselines: Beside, name: str) -> None:
    baseline, table = f"four loops, {name}, 511 x 9 x 32", np.array(BY_RANK[name].table)
    search = lambda: exact.trees(table, [511], MAX_DEPTH)  # noqa: E731
    (tree,) = baselines.time(benchmark, f"same problem, exact tree, {name}", search, baseline)
    assert block_efficiency(tree, BY_RANK[name]) == pytest.approx(baselines.results[baseline].max(), rel=1e-12)


def test_tree_of_100_000_nodes(benchmark: BenchmarkFixture, baselines: Beside) -> None:
    search = lambda: best_tree(FALLING, 100_000)  # noqa: E731
    tree = baselines.time(benchmark, "same problem, best_tree, falling, 100,000", search, HEAP)
    np.testing.assert_array_equal(tree.parent, baselines.results[HEAP][0])


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("name", "acceptance"), [("falling", FALLING), ("noisy", NOISY), ("shuffled", SHUFFLED)])
def test_best_tree(
    benchmark: BenchmarkFixture, baselines: Beside, name: str, acceptance: Acceptance, budget: int
) -> None:
    tree = baselines.time(benchmark, f"best_tree, {name}, {budget:,}", lambda: best_tree(acceptance, budget), FOUR)
    assert tree.budget == budget


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("name", "acceptance"), [("falling", FALLING), ("noisy", NOISY)])
def test_yield_table(
    benchmark: BenchmarkFixture, baselines: Beside, name: str, acceptance: Acceptance, budget: int
) -> None:
    search = lambda: yield_table(acceptance, budget, max_depth=MAX_DEPTH)  # noqa: E731
    table = baselines.time(benchmark, f"yield_table, {name}, {budget:,} x 9 x 16", search, FOUR)
    assert table.shape == (MAX_DEPTH + 1, budget + 1)


@pytest.mark.parametrize("rates", [(0.7, 0.2), (0.1, 0.6)])
def test_tree_of_two_sources(benchmark: BenchmarkFixture, baselines: Beside, rates: tuple[float, float]) -> None:
    plain = f"queues in plain Python, two sources {rates}, 500"
    arguments = *rates, *sibling_rule(rates[1], "sequential"), 500, 500
    _, _, total = baselines.baseline(plain, lambda: take(*arguments), 5)
    found = baselines.time(benchmark, f"optimal_tree, 500, {rates}", lambda: optimal_tree(*rates, 500), plain)
    assert found.block_efficiency == pytest.approx(total, rel=1e-12)
