"""`simulate.collect` on a local Dask cluster and on local Ray, each with two worker processes, one of them killed.

They run in processes of their own, since both libraries warn and leave threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a cluster, which reports no usage to Ray's makers.

    A cluster is up to a dozen Python processes. Where none may write bytecode beside the modules, each would compile
    all of Ray anew, which takes longer than everything else; there they share bytecode in a folder of the test.
    """
    bytecode = str(tmp_path_factory.mktemp("bytecode"))
    shared = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode} if sys.dont_write_bytecode else {}
    return {**os.environ, **shared, "RAY_USAGE_STATS_ENABLED": "0"}


def collected(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulate.cluster", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_gives_the_result_of_one_process_bit_for_bit(
    backend: str, environment: dict[str, str], tmp_path: Path
) -> None:
    run = collected(environment, backend, tmp_path)
    assert run.stdout.splitlines()[-1:] == ["equal"], run.stdout + run.stderr


@pytest.mark.deep
def test_a_block_that_dask_gives_up_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    said = collected(environment, "dask", tmp_path, "give-up").stderr
    assert "InputError: Dask has given up a block" in said
    assert "block 1 of task 'dies at=1'" in said
