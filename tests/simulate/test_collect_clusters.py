"""`simulate.collect` on a local Dask cluster and on local Ray, each with two worker processes, one of them killed.

They run in processes of their own, since both libraries warn and leave threads. To start Ray takes longer than the
whole job, so it is `deep`; a backend of threads that answers and fails like Ray's is tested always.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from joblib.parallel import BACKENDS, ThreadingBackend

import simulate
from simulate import CollectWarning, Stop
from tests.simulate.counted import TASKS

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


class RayActorError(Exception):
    """Named like the exception by which Ray reports a dead worker."""


def dies() -> None:
    raise RayActorError


class LikeRay(ThreadingBackend):
    """Returns no result before all of a pass are there; the first batch dies with its worker."""

    supports_retrieve_callback = False
    submitted = 0

    def submit(self, func: Any, callback: Any = None) -> Any:
        LikeRay.submitted += 1
        return self._get_pool().apply_async(dies if LikeRay.submitted == 1 else func, callback=callback)


def test_a_backend_without_streams_gives_the_result_of_one_process_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "like ray", LikeRay)
    with pytest.warns(CollectWarning, match=r"a worker died \(RayActorError\): the 15 unfinished blocks are run again"):
        found = simulate.collect(TASKS, stop=Stop(blocks=5), workers=2, backend="like ray")
    assert found == simulate.collect(TASKS, stop=Stop(blocks=5))
    assert LikeRay.submitted >= 1 + 15


@pytest.mark.parametrize("backend", ["dask", pytest.param("ray", marks=pytest.mark.deep)])
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
