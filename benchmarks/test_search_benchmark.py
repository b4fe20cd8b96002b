"""How long the search takes, and how long beside Sequoia's published dynamic program in the same run.

The baseline is that program (arXiv 2402.12374, tree construction) in NumPy, on rates by rank with a depth limit, at
64 and 127 drafted nodes. The last lines printed give every median also as a ratio to the baseline at 127 nodes; the
rows named `same problem` solve exactly what the baseline solves, and are checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from spectheory.acceptance import Acceptance
from spectheory.search import best_tree, best_trees, yield_table
from spectheory.yields import block_efficiency

MAX_DEPTH = 9
BUDGETS = [64, 1_000, 10_000, 100_000]


def measured_like(noise: float) -> Acceptance:
    """(8, 16) rates that fall with rank as measured ones do; `noise` breaks the order."""
    rng = np.random.default_rng(0)
    table = 0.62 * 0.98 ** np.arange(8)[:, None] * np.arange(1, 17.0) ** -1.7
    table *= np.exp(noise * rng.standard_normal(table.shape))
    return Acceptance(table / np.maximum(1, table.sum(1, keepdims=True) / 0.95))


FALLING, NOISY = measured_like(0), measured_like(0.3)
SHUFFLED = Acceptance(np.random.default_rng(0).permuted(FALLING.table, axis=1))


def sequoia(rates: np.ndarray, budget: int, max_depth: int) -> float:
    """The best block efficiency; best[m, l, b] is over m nodes and l levels, root included, and b children of it."""
    best = np.full((budget + 2, max_depth + 2, len(rates) + 1), -np.inf)
    best[1, 1:, 0] = 1
    any_width = np.full(best.shape[:2], -np.inf)
    any_width[1, 1:] = 1
    for nodes in range(2, budget + 2):
        for levels in range(2, max_depth + 2):
            for b, rate in enumerate(rates, start=1):
                splits = best[1:nodes, levels, b - 1] + rate * any_width[nodes - 1 : 0 : -1, levels - 1]
                best[nodes, levels, b] = splits.max()
            any_width[nodes, levels] = best[nodes, levels].max()
    return any_width[budget + 1].max()


class Baseline:
    """Seconds of the baseline by budget, and the lines that relate medians to it."""

    def __init__(self) -> None:
        self.rates = FALLING.table[0]
        self.seconds, self.yields, self.lines = {}, {}, []
        for budget in (64, 127):
            start = perf_counter()
            self.yields[budget] = sequoia(self.rates, budget, MAX_DEPTH)
            self.seconds[budget] = perf_counter() - start

    def time(self, benchmark: Any, name: str, search: Callable[[], Any], budget: int = 127) -> Any:
        search()  # compiles, or reads what was compiled
        result = benchmark(search)
        if benchmark.stats is not None:
            median = benchmark.stats.stats.median
            ratio = median / self.seconds[budget]
            benchmark.extra_info[f"ratio_to_sequoia_{budget}"] = ratio
            self.lines.append(f"{name:45} {median * 1e3:10.3f} ms {ratio:12.6f} x Sequoia at {budget}")
        return result


@pytest.fixture(scope="module")
def baseline(request: pytest.FixtureRequest) -> Iterator[Baseline]:
    made = Baseline()
    yield made
    plugins = request.config.pluginmanager
    with plugins.get_plugin("capturemanager").global_and_fixture_disabled():  # pyright: ignore[reportOptionalMemberAccess]
        print()
        for budget, seconds in made.seconds.items():
            print(f"{f'Sequoia program, {budget}':45} {seconds * 1e3:10.3f} ms")
        print(*made.lines, sep="\n")


pytestmark = pytest.mark.benchmark(max_time=0.5, min_rounds=3)


@pytest.mark.parametrize("budget", [64, 127])
def test_same_problem(benchmark: Any, baseline: Baseline, budget: int) -> None:
    acceptance = Acceptance.by_rank(baseline.rates)
    tree = baseline.time(
        benchmark, f"same problem, {budget}", lambda: best_tree(acceptance, budget, max_depth=MAX_DEPTH), budget
    )
    assert block_efficiency(tree, acceptance) == pytest.approx(baseline.yields[budget], rel=1e-12)


@pytest.mark.parametrize("budget", [64, 127])
def test_same_problem_by_the_exact_program(benchmark: Any, baseline: Baseline, budget: int) -> None:
    from spectheory.search import exact

    table = baseline.rates[None, :].copy()
    (tree,) = baseline.time(
        benchmark, f"same problem, exact, {budget}", lambda: exact.trees(table, [budget], MAX_DEPTH), budget
    )
    assert block_efficiency(tree, Acceptance(table)) == pytest.approx(baseline.yields[budget], rel=1e-12)


@pytest.mark.parametrize("budget", BUDGETS)
def test_best_tree(benchmark: Any, baseline: Baseline, budget: int) -> None:
    tree = baseline.time(benchmark, f"best_tree, falling, {budget:,}", lambda: best_tree(FALLING, budget))
    assert tree.budget == budget


@pytest.mark.parametrize("budget", BUDGETS)
def test_yield_table(benchmark: Any, baseline: Baseline, budget: int) -> None:
    search = lambda: yield_table(FALLING, budget, max_depth=MAX_DEPTH)  # noqa: E731
    table = baseline.time(benchmark, f"yield_table, falling, {budget:,}", search)
    assert table.shape == (MAX_DEPTH + 1, budget + 1)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("name", "acceptance"), [("noisy", NOISY), ("shuffled", SHUFFLED)])
def test_best_tree_by_the_exact_program(
    benchmark: Any, baseline: Baseline, name: str, acceptance: Acceptance, budget: int
) -> None:
    tree = baseline.time(benchmark, f"best_tree, {name}, {budget:,}", lambda: best_tree(acceptance, budget))
    assert tree.budget == budget


@pytest.mark.parametrize("budget", BUDGETS)
def test_yield_table_by_the_exact_program(benchmark: Any, baseline: Baseline, budget: int) -> None:
    search = lambda: yield_table(NOISY, budget, max_depth=MAX_DEPTH)  # noqa: E731
    table = baseline.time(benchmark, f"yield_table, noisy, {budget:,}", search)
    assert table.shape == (MAX_DEPTH + 1, budget + 1)


@pytest.mark.parametrize(("name", "acceptance"), [("falling", FALLING), ("noisy", NOISY)])
def test_best_trees_for_the_planner(benchmark: Any, baseline: Baseline, name: str, acceptance: Acceptance) -> None:
    trees = baseline.time(benchmark, f"best_trees, {name}, 0..256", lambda: best_trees(acceptance, 256))
    assert len(trees) == 257
