"""Seconds and memory of fresh processes: start-up, searches without Numba as in a browser, and the peak of searches.

Start-up is beside a process that imports NumPy alone; cold means that Numba has nothing cached. The peak is how far a
search raises the memory of its process, read from /proc, after a small search of the same kind, so that what Numba and
the imports take is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

PLAN = """
import spectheory as st
rates = st.Acceptance.by_depth_and_rank({rates})
st.plan(rates, st.Latency.constant(draft_seconds=0.05), max_budget={budget})
"""
FALLING, RISING = [[0.6, 0.15, 0.05], [0.55, 0.12, 0.04]], [[0.1, 0.6, 0.05], [0.55, 0.12, 0.04]]
PROGRAMS = {
    "import numpy": "import numpy",
    "import spectheory": "import spectheory",
    "plan, rates that fall with rank": PLAN.format(rates=FALLING, budget=64),
    "plan, rates that rise": PLAN.format(rates=RISING, budget=64),
    "exact tree of 512 nodes without Numba": f"""
import sys; sys.modules["numba"] = None
import spectheory as st
st.best_tree(st.Acceptance.by_depth_and_rank({RISING}), 512)
""",
}


def python(code: str, cache: Path) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    run = [sys.executable, "-c", code]
    folder = Path(__file__).parent
    return subprocess.run(run, check=True, cwd=folder, env=environment, capture_output=True, text=True).stdout


@pytest.mark.benchmark(group="start-up")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_a_fresh_process(benchmark: BenchmarkFixture, name: str, cache: str, tmp_path: Path) -> None:
    folders = (tmp_path / f"cache-{turn * (cache == 'cold')}" for turn in range(100))
    warmup = int(cache == "warm")
    benchmark.pedantic(python, setup=lambda: ((PROGRAMS[name], next(folders)), {}), rounds=2, warmup_rounds=warmup)


PEAK = """
from baselines import *
from spectheory.goose import optimal_tree
from spectheory.search import best_tree, best_trees, yield_table
bytes_of = lambda field: int(open("/proc/self/status").read().split(field + ":")[1].split()[0]) * 1024
{small}
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = bytes_of("VmRSS")
large = {large}
print(before, bytes_of("VmHWM"))
"""
SEARCHES = {
    "yield_table(FALLING, {}, max_depth=9)": 100_000,
    "yield_table(NOISY, {}, max_depth=9)": 100_000,
    "best_tree(FALLING, {})": 100_000,
    "best_tree(SHUFFLED, {})": 100_000,
    "best_trees(FALLING, {})": 256,
    "optimal_tree(0.7, 0.2, {})": 100_000,
}


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak is read from /proc")
@pytest.mark.parametrize("search", SEARCHES)
def test_peak_memory(search: str, report: list[str], tmp_path: Path) -> None:
    large = search.format(SEARCHES[search])
    before, peak = (int(n) / 1e6 for n in python(PEAK.format(small=search.format(20), large=large), tmp_path).split())
    report.append(f"{large:45} {peak - before:8.1f} MB above {before:6.1f} MB")
    assert peak >= before
