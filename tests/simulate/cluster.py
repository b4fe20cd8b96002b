"""Collect on a small cluster of this machine: `python -m tests.simulate.cluster BACKEND FOLDER`.

A worker is killed in the middle. Prints "equal" if the results are those of one process.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import simulate
from simulate import Stop, Task
from tests.simulate.counted import TASKS, dies, dies_once


def start(backend: str, stack: ExitStack) -> None:
    """Start two worker processes, and stop them at the end."""
    if backend == "dask":
        from distributed import Client, LocalCluster

        nowhere: Any = None
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=nowhere)
        stack.enter_context(stack.enter_context(cluster) and Client(cluster))
    else:
        import ray

        ray.init(
            num_cpus=2, object_store_memory=80_000_000, include_dashboard=False, log_to_driver=False,
            logging_level=logging.ERROR,
        )  # fmt: skip
        stack.callback(ray.shutdown)


def main(backend: str, folder: str) -> None:
    marker = Path(folder) / "died"
    tasks = [*TASKS, Task(dies_once, {"at": 2, "marker": str(marker)})]
    with ExitStack() as stack:
        start(backend, stack)
        found = simulate.collect(tasks, stop=Stop(blocks=4), folder=folder, backend=backend)
        if "give-up" in sys.argv:
            simulate.collect(Task(dies, {"at": 1}), stop=Stop(blocks=2), folder=folder, backend=backend)
    here = simulate.collect(tasks, stop=Stop(blocks=4))
    saved = simulate.combine(folder)
    print("equal" if marker.exists() and found == here == saved else f"different: {found}, {here}, {saved}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
