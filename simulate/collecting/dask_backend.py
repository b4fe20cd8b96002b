"""A joblib backend for Dask that reports dead workers.

joblib's own Dask backend waits forever for a block that Dask has given up because its workers died, and runs blocks in
the caller's process when the cluster has only one core left. Seen in joblib 1.6.0 with distributed 2026.8.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from joblib.parallel import ParallelBackendBase, get_active_backend


class DaskBackend(ParallelBackendBase):
    """Runs each batch of joblib as one task of a `distributed.Client`."""

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, client: Any) -> None:
        super().__init__(nesting_level=0)
        self.client = client
        self.running: set[Any] = set()

    def effective_n_jobs(self, n_jobs: int | None) -> Any:
        """The cores of the cluster, but at least 2: with 1, joblib would run the blocks in this process."""
        return max(2, sum(self.client.ncores().values()))

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> Any:
        """Send a batch to the cluster. The callback is called when it is finished, given up or cancelled."""
        future = self.client.submit(func, pure=False)
        self.running.add(future)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Any) -> Any:
        """The result of a finished batch, or the exception by which Dask gave it up."""
        self.running.discard(out)
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel all batches that are not finished."""
        self.client.cancel(list(self.running))
        self.running.clear()


def active_dask_backend() -> DaskBackend | None:
    """Our backend for the cluster to which joblib would send its work now; None if that is not Dask."""
    active: Any = get_active_backend()[0]
    return DaskBackend(active.client) if type(active).__name__ == "DaskDistributedBackend" else None
