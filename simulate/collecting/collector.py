"""`collect` and `combine`: tasks counted in blocks until a rule stops them, and results of several folders together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path

from simulate.collecting.block_file import NAME, BlockFile, read_blocks
from simulate.collecting.results import Collected, TaskResult
from simulate.collecting.statistics import Statistics
from simulate.collecting.stopping import Stop
from simulate.collecting.task import Task
from simulate.collecting.workers import Answer, Job, Workers
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

Progress = Callable[[int, int], None]


class TaskError(InputError):
    """The function of a task raised an exception. The message names block and settings; a note has the traceback."""


def collect(
    tasks: Task | Sequence[Task],
    *,
    stop: Stop | None = None,
    folder: str | Path | None = None,
    workers: int | None = None,
    backend: str | None = None,
    first_block: int = 0,
    progress: Progress | None = None,
) -> Collected:
    """Count tasks in blocks, in parallel, until the rule stops each of them.

    The result depends only on the tasks, the rule and `first_block`: not on the workers, on the backend, on the order
    in which blocks finish, or on interruptions. With a `folder`, every block is saved as soon as it is counted. The
    same call after an interruption, even after `kill -9`, continues. A folder may hold results of other tasks, which
    are left alone. Blocks in the folder beyond the point where the rule stops are not part of the result; `combine`
    shows all blocks.

    Args:
        tasks: what to count.
        stop: when a task has been counted often enough; default: after 64 blocks.
        folder: folder for the results; None keeps them in memory only.
        workers: number of parallel workers, -1 for all cores; default: all workers of a named backend, or what
            `joblib.parallel_config` says, else 1.
        backend: a joblib backend: "loky" (processes), "threading", "dask" (needs a `distributed.Client`) or "ray".
            Ray returns results only when a few blocks of each worker are finished.
        first_block: number of the first block. Other machines can count other blocks of the same tasks into folders of
            their own, see `combine`.
        progress: callback, called with the numbers of finished blocks and of blocks asked for so far; default: a line
            on standard error if that is a terminal.

    Raises:
        InputError: two tasks are the same, another process writes to the folder, the folder cannot be written or holds
            a damaged line, the backend cannot be used, or a block kills its workers.
        TaskError: the function of a task raised. All blocks counted before are kept.
    """
    listed = _listed(tasks)
    check_whole("first_block", first_block, 0)
    if workers is not None:
        check_whole("workers", workers, -1)
        if workers == 0:
            raise InputError("workers must be at least 1, or -1 for all cores, got 0")
    with nullcontext() if folder is None else BlockFile.opened(folder) as file, _shown(progress) as tell:
        counting = _Counting(listed, stop or Stop(), first_block, file)
        while jobs := counting.missing():
            asked = counting.asked
            with closing(Workers(workers, backend).answers(jobs)) as answers:
                for done, answer in enumerate(answers, start=1):
                    counting.add(answer)
                    tell(asked - len(jobs) + done, asked)
    return counting.collected()


def combine(*folders: str | Path) -> Collected:
    """The results in all folders. Blocks of the same task are put together; a block in two folders counts once.

    Raises:
        InputError: no folder is given, one has no results or a damaged line, or two contradict each other.
    """
    if not folders:
        raise InputError("folders must name at least one folder of simulate.collect, got none")
    return reduce(add, [read_blocks(Path(folder) / NAME).collected() for folder in folders])


@dataclass
class _Counting:
    """The blocks counted so far, and what the rule still asks for."""

    tasks: dict[str, Task]
    stop: Stop
    first: int
    file: BlockFile | None
    blocks: dict[str, dict[int, Statistics]] = field(init=False)
    empty: dict[str, TaskResult] = field(init=False)

    def __post_init__(self) -> None:
        saved = self.file.contents.blocks if self.file else {}
        self.blocks = {identity: dict(saved.get(identity, {})) for identity in self.tasks}
        self.empty = {identity: TaskResult.of_task(task, {}) for identity, task in self.tasks.items()}
        if self.file:
            for task in self.tasks.values():
                self.file.add_task(task)

    def missing(self) -> list[Job]:
        """The blocks that are missing up to the next look at each task; none if the rule has stopped all of them."""
        return [
            (task, number)
            for identity, task in self.tasks.items()
            for number in self._numbers(identity)
            if number not in self.blocks[identity]
        ]

    @property
    def asked(self) -> int:
        """Number of blocks up to the next look, over all tasks."""
        return sum(len(self._numbers(identity)) for identity in self.tasks)

    def _numbers(self, identity: str) -> range:
        """The numbers of the blocks up to the first look at which the rule stops the task or blocks are missing."""
        *early, last = (range(self.first, self.first + look) for look in self.stop.looks())
        for numbers in early:
            is_whole = self.blocks[identity].keys() >= set(numbers)
            if not is_whole or self.stop.is_reached(self._result(identity, numbers)):
                return numbers
        return last

    def _result(self, identity: str, numbers: range) -> TaskResult:
        return replace(self.empty[identity], blocks={number: self.blocks[identity][number] for number in numbers})

    def add(self, answer: Answer) -> None:
        """Save the answer of a block.

        Raises:
            TaskError: the function of the task raised.
            InputError: the block has other totals than the blocks before it.
        """
        task = self.tasks[answer.identity]
        if answer.statistics is None:
            raised, settings = answer.failure.strip().splitlines()[-1], task.description["settings"]
            error = TaskError(
                f"block {answer.number} of task {task.name!r} raised {raised} (settings {settings!s:.300}): correct "
                "the function and call collect again; all blocks counted before are kept"
            )
            error.add_note(answer.failure)
            raise error
        known = self.blocks[task.identity]
        for number, first in list(known.items())[:1]:
            first.require_same_names(
                answer.statistics, f"block {number} of task {task.name!r}", f"block {answer.number}"
            )
        if self.file:
            self.file.add_block(task.identity, answer.number, answer.statistics)
        known[answer.number] = answer.statistics

    def collected(self) -> Collected:
        """The blocks of each task up to the look at which the rule stopped it."""
        return Collected(tuple(self._result(identity, self._numbers(identity)) for identity in self.tasks))


def _listed(tasks: Task | Sequence[Task]) -> dict[str, Task]:
    """The tasks by identity."""
    listed = [tasks] if isinstance(tasks, Task) else list(tasks)
    found: dict[str, Task] = {}
    for task in listed:
        if not isinstance(task, Task):
            raise InputError(f"tasks must be simulate.Task, got {task!r:.80}")
        if task.identity in found:
            raise InputError(f"two tasks are the same: {found[task.identity].name!r} and {task.name!r}; leave out one")
        found[task.identity] = task
    if not found:
        raise InputError("tasks must hold at least one simulate.Task, got none")
    return found


@contextmanager
def _shown(progress: Progress | None) -> Iterator[Progress]:
    """The given callback, or the line of progress of the commands."""
    if progress is not None:
        yield progress
        return
    from spectheory.cli.output import progress as line

    with line("blocks") as tell:
        yield tell
