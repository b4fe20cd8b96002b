"""Running blocks on joblib's workers: threads, processes, Dask or Ray. A block whose worker dies is run again."""

from __future__ import annotations

import itertools
import traceback
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

import spectheory
from simulate.collecting.block_file import CollectWarning
from simulate.collecting.dask_backend import active_dask_backend
from simulate.collecting.statistics import Statistics
from simulate.collecting.task import Task
from spectheory.core.errors import InputError

MOST_DEATHS = 3
"""A block is given up when this many workers have died of it while it ran alone."""
DEATHS = {"BrokenExecutor", "RayActorError", "WorkerCrashedError", "OutOfMemoryError"}
"""The exceptions by which loky and Ray report that a worker died."""
GIVEN_UP = "KilledWorker"
"""The exception by which Dask gives up a block. It has then run the block on several workers, and all of them died."""
CLUSTERS = {"dask": "distributed", "ray": "ray"}
"""The package that each backend of a cluster needs."""
SLICE = 4
"""Blocks of a worker that are handed out together, on a backend that returns no results before all are finished."""

Job = tuple[Task, int]


@dataclass(frozen=True)
class Answer:
    """What a worker sends back: the statistics of a block, or the traceback of the exception that its task raised."""

    number: int
    identity: str
    statistics: Statistics | None
    failure: str = ""


def run_block(task: Task, number: int, version: str) -> Answer:
    """Count one block in a worker. An exception of the task is part of the answer, not an error of this package."""
    try:
        if version != spectheory.__version__:
            raise InputError(
                f"this worker has spectheory {spectheory.__version__}, the caller {version}: install the same version"
            )
        return Answer(number, task.identity, task.run(number))
    except Exception:
        return Answer(number, task.identity, None, traceback.format_exc())


@dataclass(frozen=True)
class Workers:
    """Where blocks run.

    Attributes:
        count: number of workers; None: all of a named backend, else what `joblib.parallel_config` says, else 1.
        backend: name of a joblib backend, such as "loky", "threading", "dask" or "ray"; None: what
            `joblib.parallel_config` says, else "loky".
    """

    count: int | None = None
    backend: str | None = None

    def answers(self, jobs: Sequence[Job]) -> Generator[Answer]:
        """The answers in the order in which they come. Blocks whose worker died are run again.

        At every second death the blocks that may have been running are run alone, to find the one that kills.

        Raises:
            InputError: the backend cannot be used, a task cannot be sent to it, or a block kills its workers.
        """
        waiting = {(task.identity, number): (task, number) for task, number in jobs}
        died = 0
        while waiting:
            try:
                for answer in self._pass(list(waiting.values())):
                    del waiting[answer.identity, answer.number]
                    yield answer
            except Exception as error:
                suspects = self._suspects(error, list(waiting.values()))
                died += 1
                _warn(f"a worker died ({type(error).__name__}): the {len(waiting)} unfinished blocks are run again")
                for job in suspects if died % 2 == 0 else ():
                    answer = self._alone(*job)
                    del waiting[answer.identity, answer.number]
                    yield answer

    def _suspects(self, error: Exception, waiting: list[Job]) -> list[Job]:
        """The blocks that may have been running when a worker died. Raises any error that is not a worker's death."""
        if not _names(error) & {*DEATHS, GIVEN_UP}:
            raise error
        with self._configured():
            found = waiting[: 2 * self._effective() + 1]
        if GIVEN_UP in _names(error):
            blocks = ", ".join(f"block {number} of task {task.name!r}" for task, number in found)
            raise InputError(
                f"Dask has given up a block after several workers died of it. It is one of these: {blocks}. "
                "Look for a crash or for too little memory; all finished blocks are kept"
            ) from error
        return found

    def _alone(self, task: Task, number: int) -> Answer:
        """The answer of one block that runs alone."""
        for _ in range(MOST_DEATHS):
            try:
                (answer,) = self._pass([(task, number)])
                return answer
            except Exception as error:
                self._suspects(error, [(task, number)])
                _warn(f"block {number} of task {task.name!r} ran alone and its worker died ({type(error).__name__})")
        raise InputError(
            f"block {number} of task {task.name!r} killed {MOST_DEATHS} workers, it is given up: look for a crash or "
            "for too little memory; all finished blocks are kept"
        )

    @property
    def _n_jobs(self) -> int | None:
        return -1 if self.count is None and self.backend else self.count

    def _configured(self) -> ExitStack:
        """Context in which joblib uses the backend."""
        stack = ExitStack()
        _require_installed(self.backend)
        if self.backend:
            try:
                stack.enter_context(parallel_config(backend=self.backend, n_jobs=self._n_jobs))
            except ValueError as error:
                raise InputError(f"the backend {self.backend!r} cannot be used: {error}") from error
        return stack

    def _pass(self, jobs: Sequence[Job]) -> Generator[Answer]:
        """The answers of all jobs, as long as no worker dies."""
        with self._configured():
            calls = (delayed(run_block)(task, number, spectheory.__version__) for task, number in jobs)
            try:
                yield from self._streamed(calls) if self._can_stream() else self._in_slices(calls)
            except Exception as error:
                if "pickl" in f"{type(error).__name__} {error}".lower():
                    reason = str(error.__cause__ or error).strip().strip('"').strip().splitlines()[-1]
                    raise InputError(
                        f"a task cannot be sent to another process: {reason}; define its function, and what this uses, "
                        "in a module that workers import, not in a script, and give it settings of modules"
                    ) from error
                raise

    def _effective(self) -> int:
        """Number of blocks that run at the same time."""
        count: Any = self._n_jobs
        dask = active_dask_backend()
        return dask.effective_n_jobs(count) if dask else effective_n_jobs(count)

    def _parallel(self, **options: Any) -> Any:
        """A pool that takes each block alone, since blocks are long."""
        size: Any = 1
        return Parallel(n_jobs=self._n_jobs, backend=active_dask_backend(), batch_size=size, **options)

    def _can_stream(self) -> bool:
        try:
            self._parallel(return_as="generator_unordered")
        except ValueError:
            return False
        return True

    def _streamed(self, calls: Iterable[Any]) -> Iterator[Answer]:
        """Each answer as soon as it is there."""
        with closing(self._parallel(return_as="generator_unordered")(calls)) as answers:
            yield from answers

    def _in_slices(self, calls: Iterable[Any]) -> Iterator[Answer]:
        """The answers of one slice after the other, by one pool of workers."""
        size, rest = SLICE * self._effective(), iter(calls)
        with self._parallel() as parallel:
            while part := list(itertools.islice(rest, size)):
                yield from parallel(part)


def _names(error: Exception) -> set[str]:
    """The names of the classes of an exception, so that no backend must be imported to know them."""
    return {kind.__name__ for kind in type(error).__mro__}


def _warn(text: str) -> None:
    warnings.warn(text, CollectWarning, stacklevel=2)


def _require_installed(backend: str | None) -> None:
    """Check that the package of a cluster's backend is installed, and make Ray's backend known to joblib."""
    if backend not in CLUSTERS:
        return
    try:
        import_module(CLUSTERS[backend])
    except ImportError as error:
        raise InputError(
            f"the backend {backend!r} needs the package {CLUSTERS[backend]}, which cannot be imported ({error}): "
            "pip install 'spectheory[cluster]'"
        ) from error
    if backend == "ray":
        import_module("ray.util.joblib").register_ray()
