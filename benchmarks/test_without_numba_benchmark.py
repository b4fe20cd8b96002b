"""Seconds of searches for 512 nodes in a fresh process without Numba, as in a browser, beside the same with Numba.

The exact search takes rates that are not non-increasing in rank. A plan searches it for every budget and depth limit.
Both processes import all they need, and Numba has its loops cached. Targets without Numba: the exact tree of 512 nodes
in 2 s and the plan of 512 nodes in 30 s, start included.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

BLOCKED = "import sys; sys.modules['numba'] = None\n"
RATES = """
import spectheory as st
rates = st.Acceptance.by_depth_and_rank([[0.55, 0.05, 0.12, 0.02], [0.5, 0.1, 0.12, 0.02]])
"""
SEARCHES = {
    "exact tree": "assert st.best_tree(rates, 512).budget == 512",
    "plan": "st.plan(rates, st.Latency.constant(draft_seconds=0.05), max_budget=512)",
}


@pytest.mark.benchmark(group="without Numba")
@pytest.mark.parametrize("numba", ["with Numba", "without Numba"])
@pytest.mark.parametrize("search", SEARCHES)
def test_512_nodes(benchmark: BenchmarkFixture, search: str, numba: str, tmp_path: Path) -> None:
    code = (BLOCKED if numba == "without Numba" else "") + RATES + SEARCHES[search]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    call = {"args": [sys.executable, "-c", code], "check": True, "env": environment}
    benchmark.pedantic(subprocess.run, kwargs=call, rounds=2, warmup_rounds=1)
