"""Times of the best tree of two sources beside the textbook's heap in plain Python in the same run.

Both take 500 drafted nodes, and are checked against each other. Least times are compared, since a busy machine only
adds. `optimal_tree` is the whole call: arguments checked, search, `Tree` made. The target is 50 microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from beside import Beside
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory.goose import SpineTree, optimal_tree
from spectheory.goose.optimal import compiled, take, take_by_heap
from spectheory.goose.two_source import Siblings, sibling_rule

BUDGET = 500
Case = tuple[float, float, Siblings]
CASES: list[Case] = [
    (0.7, 0.2, "sequential"),
    (0.7, 0.2, "exclusive"),
    (0.4, 0.15, "sequential"),
    (0.1, 0.6, "sequential"),
]
Arguments = tuple[float, float, float, int, int, int]


def arguments(p_spine: float, p_branch: float, siblings: Siblings, budget: int) -> Arguments:
    return p_spine, p_branch, *sibling_rule(p_branch, siblings), budget, budget


@pytest.fixture
def heap(beside: Beside, case: Case) -> str:
    """The name of the heap's time on this case."""
    name = f"heap in plain Python, {BUDGET}, {case}"
    beside.baseline(name, lambda: take_by_heap(*arguments(*case, BUDGET)), 50)
    return name


pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.3, min_rounds=20)


@pytest.mark.parametrize("case", CASES)
def test_optimal_tree(benchmark: BenchmarkFixture, beside: Beside, heap: str, case: Case) -> None:
    p_spine, p_branch, siblings = case
    call = lambda: optimal_tree(p_spine, p_branch, BUDGET, siblings=siblings)  # noqa: E731
    found: SpineTree = beside.time(benchmark, f"optimal_tree, {BUDGET}, {case}", call, heap)
    assert found.block_efficiency == pytest.approx(beside.results[heap][2], rel=1e-12)
    assert found.tree.budget == BUDGET


@pytest.mark.parametrize(
    ("case", "name", "body"),
    [*((case, "compiled kernel", compiled) for case in CASES), (CASES[0], "kernel, not compiled", lambda: take)],
)
def test_kernel(
    benchmark: BenchmarkFixture,
    beside: Beside,
    heap: str,
    case: Case,
    name: str,
    body: Callable[[], Callable[..., Any]],
) -> None:
    kernel = body()
    call = lambda: kernel(*arguments(*case, BUDGET))  # noqa: E731
    _, _, total = beside.time(benchmark, f"{name}, {BUDGET}, {case}", call, heap)
    assert total == pytest.approx(beside.results[heap][2], rel=1e-12)
