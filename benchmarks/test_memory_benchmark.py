"""How much memory the large searches take: the peak of a fresh process, and how far the search raised it.

A small search of the same kind runs first, so that what Numba and the imports take is not counted to the search. Read
from /proc: what `resource` gives for a child counts its parent too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = {
    "yield_table, falling, 511 x 9 x 32": "yield_table(measured_like(1, 32, 0), {511}, max_depth=9)",
    "yield_table, noisy, 511 x 9 x 32": "yield_table(measured_like(1, 32, 0.3), {511}, max_depth=9)",
    "yield_table, falling, 100,000 x 9 x 16": "yield_table(FALLING, {100_000}, max_depth=9)",
    "yield_table, noisy, 100,000 x 9 x 16": "yield_table(NOISY, {100_000}, max_depth=9)",
    "best_tree, falling, 100,000": "best_tree(FALLING, {100_000})",
    "best_tree, noisy, 100,000": "best_tree(NOISY, {100_000})",
    "best_tree, shuffled, 100,000": "best_tree(SHUFFLED, {100_000})",
    "best_trees, falling, 0..256": "best_trees(FALLING, {256})",
    "optimal_tree of two sources, 500": "optimal_tree(0.7, 0.2, {500})",
    "optimal_tree of two sources, 100,000": "optimal_tree(0.7, 0.2, {100_000})",
}
"""The name and the code of each search; braces mark its budget."""

PROGRAM = """
from rates import *
from spectheory.goose import optimal_tree
from spectheory.search import best_first, best_tree, best_trees, exact, yield_table
best_first.compiled()(FALLING.table.copy(), 10, 10), optimal_tree(0.5, 0.5, 200)
bytes_of = lambda field: int(open("/proc/self/status").read().split(field + ":")[1].split()[0]) * 1024
small = {small}
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = bytes_of("VmRSS")
large = {large}
print(before, bytes_of("VmHWM"))
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak is read from /proc")
@pytest.mark.parametrize("name", CASES)
def test_peak_memory(name: str, report: list[str]) -> None:
    large = CASES[name].replace("{", "").replace("}", "")
    small = CASES[name].split("{")[0] + "20" + CASES[name].split("}")[1]
    run = [sys.executable, "-c", PROGRAM.format(small=small, large=large)]
    answer = subprocess.run(run, check=True, cwd=Path(__file__).parent, capture_output=True, text=True).stdout
    before, peak = (int(count) / 1e6 for count in answer.split())
    report.append(f"{name:45} {peak - before:8.1f} MB above {before:6.1f} MB")
    assert peak >= before
