"""How long the best tree of two sources takes, beside the textbook's heap in plain Python in the same run.

Both take 500 drafted nodes, and are checked against each other. Least times are compared, since a busy machine only
adds. `optimal_tree` is the whole call: arguments checked, search, `Tree` made. The target is 50 microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest

from spectheory.goose import SpineTree, optimal_tree
from spectheory.goose.optimal import compiled, take, take_by_heap
from spectheory.goose.two_source import Siblings, sibling_rule

BUDGET = 500
CASES: list[tuple[float, float, Siblings]] = [
    (0.7, 0.2, "sequential"),
    (0.7, 0.2, "exclusive"),
    (0.4, 0.15, "sequential"),
    (0.1, 0.6, "sequential"),
]
Arguments = tuple[float, float, float, int, int, int]


def arguments(p_spine: float, p_branch: float, siblings: Siblings, budget: int) -> Arguments:
    return p_spine, p_branch, *sibling_rule(p_branch, siblings), budget, budget


def least_seconds(call: Callable[[], Any], rounds: int) -> float:
    def once() -> float:
        start = perf_counter()
        call()
        return perf_counter() - start

    return min(once() for _ in range(rounds))


class Heap:
    """Least seconds and yield of the heap by case, and the lines that relate other least seconds to them."""

    def __init__(self, report: list[str]) -> None:
        self.seconds, self.yields, self.lines = {}, {}, report
        for case in CASES:
            self.yields[case] = take_by_heap(*arguments(*case, BUDGET))[2]
            self.seconds[case] = least_seconds(lambda case=case: take_by_heap(*arguments(*case, BUDGET)), 50)
            report.append(f"{f'heap in plain Python, {BUDGET}, {case}':55} {self.seconds[case] * 1e6:10.1f} us")

    def time(self, benchmark: Any, name: str, call: Callable[[], Any], case: tuple[float, float, Siblings]) -> Any:
        call()  # compiles, or reads what was compiled
        result = benchmark(call)
        if benchmark.stats is not None:
            least, median, heap = benchmark.stats.stats.min, benchmark.stats.stats.median, self.seconds[case]
            benchmark.extra_info["ratio_to_heap"] = least / heap
            times = f"{least * 1e6:10.1f} us, median {median * 1e6:10.1f} us"
            self.lines.append(f"{f'{name}, {BUDGET}, {case}':55} {times} {least / heap:8.4f} x heap")
        return result


@pytest.fixture(scope="module")
def heap(report: list[str]) -> Heap:
    return Heap(report)


pytestmark = pytest.mark.benchmark(max_time=0.3, min_rounds=20)


@pytest.mark.parametrize("case", CASES)
def test_optimal_tree(benchmark: Any, heap: Heap, case: tuple[float, float, Siblings]) -> None:
    p_spine, p_branch, siblings = case
    call = lambda: optimal_tree(p_spine, p_branch, BUDGET, siblings=siblings)  # noqa: E731
    found: SpineTree = heap.time(benchmark, "optimal_tree", call, case)
    assert found.block_efficiency == pytest.approx(heap.yields[case], rel=1e-12)
    assert found.tree.budget == BUDGET


@pytest.mark.parametrize("case", CASES)
def test_compiled_kernel(benchmark: Any, heap: Heap, case: tuple[float, float, Siblings]) -> None:
    body = compiled()
    _, _, total = heap.time(benchmark, "compiled kernel", lambda: body(*arguments(*case, BUDGET)), case)
    assert total == pytest.approx(heap.yields[case], rel=1e-12)


@pytest.mark.parametrize("case", CASES[:1])
def test_kernel_in_plain_python(benchmark: Any, heap: Heap, case: tuple[float, float, Siblings]) -> None:
    _, _, total = heap.time(benchmark, "kernel, not compiled", lambda: take(*arguments(*case, BUDGET)), case)
    assert total == pytest.approx(heap.yields[case], rel=1e-12)
