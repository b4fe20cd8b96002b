"""`simulate.collect` on a local Dask cluster and on local Ray, each with two worker processes, one of them killed.

They run in processes of their own, since both libraries warn and leave threads.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def collected(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulate.cluster", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_gives_the_result_of_one_process_bit_for_bit(backend: str, tmp_path: Path) -> None:
    run = collected(backend, tmp_path)
    assert run.stdout.splitlines()[-1:] == ["equal"], run.stdout + run.stderr


@pytest.mark.deep
def test_a_block_that_dask_gives_up_is_named(tmp_path: Path) -> None:
    said = collected("dask", tmp_path, "give-up").stderr
    assert "InputError: Dask has given up a block" in said
    assert "block 1 of task 'dies at=1'" in said
