"""Seconds to import spectheory and to answer `spectheory plan`, each in a fresh process.

The baseline in the same run is a process that imports NumPy alone. Cold means that Numba has nothing cached.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import spectheory as st

ROUNDS = 5


def python(code: str, folder: Path, cache: Path | None = None) -> None:
    environment = {**os.environ} if cache is None else {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, env=environment, capture_output=True)


@pytest.mark.benchmark(group="start-up")
@pytest.mark.parametrize("module", ["numpy", "spectheory"])
def test_import(benchmark: BenchmarkFixture, module: str, tmp_path: Path) -> None:
    benchmark.pedantic(python, (f"import {module}", tmp_path), rounds=ROUNDS, warmup_rounds=1)


def plan_command(table: list[list[float]], folder: Path) -> str:
    """Code that runs `spectheory plan` on records written to `folder`, as the console script does."""
    st.Acceptance.by_depth_and_rank(table).save(folder / "acceptance.json")
    sizes = 2 ** np.arange(9)
    seconds = 5e-3 + 1e-4 * sizes[None]
    st.Latency(sizes, np.array([256]), seconds, seconds / 10).save(folder / "latency.json")
    arguments = ["spectheory", "plan", "--acceptance", "acceptance.json", "--latency", "latency.json"]
    return f"import sys; sys.argv = {arguments}; from spectheory.cli import app; app()"


TABLES = {
    "rates that fall with rank": [[0.6, 0.15, 0.05], [0.55, 0.12, 0.04]],
    "rates that rise": [[0.1, 0.6, 0.05], [0.55, 0.12, 0.04]],
}


@pytest.mark.benchmark(group="start-up")
@pytest.mark.parametrize("rates", TABLES)
def test_plan_cold(benchmark: BenchmarkFixture, rates: str, tmp_path: Path) -> None:
    code = plan_command(TABLES[rates], tmp_path)
    caches = (tmp_path / f"cache-{i}" for i in range(100))
    benchmark.pedantic(python, setup=lambda: ((code, tmp_path, next(caches)), {}), rounds=2)


@pytest.mark.benchmark(group="start-up")
@pytest.mark.parametrize("rates", TABLES)
def test_plan_warm(benchmark: BenchmarkFixture, rates: str, tmp_path: Path) -> None:
    code = plan_command(TABLES[rates], tmp_path)
    benchmark.pedantic(python, (code, tmp_path, tmp_path / "cache"), rounds=ROUNDS, warmup_rounds=1)
