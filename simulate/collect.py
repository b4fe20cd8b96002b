"""`collect`: tasks counted in blocks on many workers, and kept in a folder, so that an interrupted run continues."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import joblib
import numpy as np

import spectheory
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.files import owned
from spectheory.core.ratios import clusters, influence, ratio_half_width
from spectheory.core.record import Record

if TYPE_CHECKING:
    from spectheory.report.tables import TextTable

Totals = Mapping[str, int | float]
"""What a block has counted: finite numbers by name, such as {"emitted": 2814, "cycles": 1000}."""


@dataclass(frozen=True, eq=False)
class Task:
    """What to count: `function(seed, **settings)`, which returns the totals of one block.

    Blocks have the numbers 0, 1, ... The seed of a block depends on the task and the number only, so the result does
    not depend on the workers.

    Attributes:
        function: a function at the top level of a module. All its random numbers must come from the seed.
        settings: its keyword arguments.
        figure: names of two totals; the figure of interest is the first divided by the second.
        name: shown in tables and messages; default: the function and the settings that are numbers or short texts.
        stream: tasks with the same stream get the same seeds, for paired comparisons; default: every task its own.
        version: increase it when a change of the function's code changes its results.
    """

    function: Callable[..., Totals]
    settings: Mapping[str, Any] = field(default_factory=dict)
    figure: tuple[str, str] = ("emitted", "cycles")
    name: str = ""
    stream: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        if not self.name:
            shown = [f"{key}={value}" for key, value in self.settings.items() if isinstance(value, int | float | str)]
            object.__setattr__(self, "name", " ".join([self.function.__name__, *shown])[:120])

    @cached_property
    def identity(self) -> str:
        """A hash of all that determines the results. The provenance of a record in the settings does not count."""
        settings = {
            name: {**value.to_dict(), "provenance": None} if isinstance(value, Record) else value
            for name, value in self.settings.items()
        }
        place = f"{self.function.__module__}:{self.function.__qualname__}"
        described = (spectheory.__version__, place, settings, self.stream, self.version)
        return str(joblib.hash(described, hash_name="sha1"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def seed(self, number: int) -> int:
        """The seed of a block, from 0 to 2**63 - 1."""
        source = joblib.hash(self.stream, hash_name="sha1") if self.stream else self.identity
        sequence = np.random.SeedSequence((int(source or "0", 16), number))
        return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


class Figure(NamedTuple):
    """A ratio with half its 95% interval, NaN if fewer than two blocks say something about it."""

    value: float
    half_width: float


@dataclass(frozen=True)
class Collected:
    """The blocks of each task.

    Attributes:
        tasks: the tasks, in the order given.
        blocks: for each task the totals of its blocks 0, 1, ...
    """

    tasks: tuple[Task, ...]
    blocks: tuple[tuple[Totals, ...], ...]

    def totals(self, task: Task) -> dict[str, int | float]:
        """The sums over the blocks of a task, correctly rounded, so that no order matters."""
        blocks = self.blocks[self.tasks.index(task)]
        return {name: _sum(block[name] for block in blocks) for name in blocks[0]}

    def figure(self, task: Task, figure: tuple[str, str] | None = None) -> Figure:
        """The figure of a task with half its 95% interval. Blocks count as independent clusters.

        Args:
            task: one of the tasks.
            figure: names of two totals; None is the figure of the task.
        """
        above, below = self._columns(task, figure)
        half = ratio_half_width(above, below) if clusters(below) > 1 else math.nan
        return Figure(_ratio(above, below), half)

    def difference(self, first: Task, second: Task, figure: tuple[str, str] | None = None) -> Figure:
        """The figure of `second` minus that of `first`, over the blocks that both have, with half its 95% interval.

        Blocks of the same number are pairs. If both tasks have the same stream, what they share cancels, and the
        interval is narrower than the figures' own intervals.
        """
        shared = min(len(self.blocks[self.tasks.index(task)]) for task in (first, second))
        columns = [[column[:shared] for column in self._columns(task, figure)] for task in (first, second)]
        gain = _ratio(*columns[1]) - _ratio(*columns[0])
        if min(shared, *(clusters(below) for _, below in columns)) < 2:
            return Figure(gain, math.nan)
        moved = influence(*columns[1]) - influence(*columns[0])
        return Figure(gain, ratio_half_width(shared * moved, np.ones(shared)))

    def table(self) -> TextTable:
        """The figures of all tasks."""
        from spectheory.report.tables import TextTable

        rows = []
        for task, blocks in zip(self.tasks, self.blocks, strict=True):
            value, half = self.figure(task)
            rows.append((task.name, " / ".join(task.figure), f"{value:.4g} ± {half:.2g}", f"{len(blocks):,}"))
        header = ("task", "figure", "value", "blocks")
        return TextTable(title="Collected figures, ± half of the 95% interval", header=header, rows=tuple(rows))

    def _columns(self, task: Task, figure: tuple[str, str] | None) -> tuple[np.ndarray, np.ndarray]:
        blocks = self.blocks[self.tasks.index(task)]
        above, below = figure or task.figure
        for name in (above, below):
            if name not in blocks[0]:
                raise InputError(f"task {task.name!r} has no total {name!r}, its blocks have {', '.join(blocks[0])}")
        return np.array([block[above] for block in blocks]), np.array([block[below] for block in blocks])


def collect(
    tasks: Sequence[Task],
    *,
    blocks: int = 64,
    half_width: float | None = None,
    least: int = 8,
    workers: int = 1,
    backend: Literal["loky", "threading", "dask", "ray"] = "loky",
    folder: str | Path | None = None,
) -> Collected:
    """Count the blocks of tasks until each figure is known well enough.

    A task is looked at after `least` blocks, after twice as many, and so on, always the blocks of the lowest numbers:
    where it stops depends on the task alone, not on the workers. Intervals are those of a fixed number of blocks.

    Args:
        tasks: what to count.
        blocks: maximum number of blocks of a task.
        half_width: stop as soon as half the 95% interval of the task's figure is at most this; None counts all blocks.
        least: number of blocks before the first look. Few blocks give unreliable intervals.
        workers: number of workers of joblib, -1 for all cores.
        backend: of joblib. Dask and Ray use the cluster of the running client: `distributed.Client(...)`, or
            `ray.init(...)` with `ray.util.joblib.register_ray()`.
        folder: every block is appended to `blocks.jsonl` there as soon as it is counted. A later call, even after
            `kill -9`, continues from them. None keeps nothing.

    Raises:
        InputError: an argument is out of range, two tasks are the same, another process writes to the folder, its file
            is damaged, or a block returns something else than finite totals. What a function raises
            itself is raised as it is; all blocks counted before are kept.
    """
    for name, value, smallest in (("blocks", blocks, 1), ("least", least, 2), ("workers", workers, -1)):
        check_whole(name, value, smallest)
    if half_width is not None and not 0 < half_width < math.inf:
        raise InputError(f"half_width must be finite and above 0, got {half_width!r:.80}: leave it out for no limit")
    identities = [task.identity for task in tasks]
    if not tasks or len(set(identities)) < len(tasks):
        raise InputError(f"tasks must be at least one and all different, got {[task.name for task in tasks]!s:.200}")
    order = "list" if backend == "ray" else "generator_unordered"
    known: dict[str, dict[int, Totals]] = {identity: {} for identity in identities}
    with _kept(None if folder is None else Path(folder), known) as keep:
        while jobs := [
            job for task in tasks for job in _missing(task, known[task.identity], blocks, half_width, least)
        ]:
            calls = (joblib.delayed(_counted)(*job) for job in jobs)
            with joblib.parallel_config(backend, n_jobs=workers):
                for identity, number, totals in joblib.Parallel(return_as=order, batch_size=1)(calls):  # type: ignore[call-overload]
                    keep(identity, number, totals)
                    known[identity][number] = totals
    stopped = (range(_enough(task, known[task.identity], blocks, half_width, least)) for task in tasks)
    found = tuple(tuple(known[task.identity][n] for n in numbers) for task, numbers in zip(tasks, stopped, strict=True))
    return Collected(tuple(tasks), found)


def _counted(task: Task, number: int) -> tuple[str, int, Totals]:
    found = task.function(task.seed(number), **task.settings)
    values = {
        str(name): value.item() if isinstance(value, np.generic) else value for name, value in dict(found).items()
    }
    wrong = [name for name, value in values.items() if not isinstance(value, int | float) or not math.isfinite(value)]
    if wrong or not values:
        raise InputError(f"block {number} of task {task.name!r} must return finite totals by name, got {found!r:.200}")
    return task.identity, number, values


def _enough(task: Task, known: Mapping[int, Totals], most: int, half_width: float | None, least: int) -> int:
    """The number of blocks up to the first look at which the rule stops the task, or blocks are missing.

    Blocks that all give the same ratio say nothing about the width, so a width of exactly 0 is not enough.
    """
    look = least
    while half_width is not None and look < most:
        if not all(number in known for number in range(look)):
            return look
        half = Collected((task,), (tuple(known[number] for number in range(look)),)).figure(task).half_width
        if 0 < half <= half_width:
            return look
        look *= 2
    return most


def _missing(task: Task, known: Mapping[int, Totals], *rule: Any) -> list[tuple[Task, int]]:
    return [(task, number) for number in range(_enough(task, known, *rule)) if number not in known]


@contextmanager
def _kept(folder: Path | None, known: dict[str, dict[int, Totals]]) -> Iterator[Callable[[str, int, Totals], None]]:
    """Fill `known` with the blocks of the folder. Returns what appends one; the last line may be cut and is dropped."""
    if folder is None:
        yield lambda *_: None
        return
    file = folder / "blocks.jsonl"
    with owned(folder, folder / "blocks.lock", "name another folder"), file.open("a+b") as lines:
        lines.seek(0)
        raw = lines.read()
        lines.truncate(raw.rfind(b"\n") + 1)
        for row, line in enumerate(raw[: raw.rfind(b"\n") + 1].splitlines(), start=1):
            try:
                identity, number, totals = json.loads(line)
                known.setdefault(identity, {})[int(number)] = dict(totals)
            except (ValueError, TypeError, RecursionError):
                raise InputError(f"{file}, line {row} is damaged: restore the file, or start a new folder") from None

        def keep(identity: str, number: int, totals: Totals) -> None:
            lines.write(json.dumps([identity, number, totals]).encode() + b"\n")
            lines.flush()
            os.fsync(lines.fileno())

        yield keep


def _ratio(above: np.ndarray, below: np.ndarray) -> float:
    total = math.fsum(below)
    return math.fsum(above) / total if total else math.nan


def _sum(values: Iterable[int | float]) -> int | float:
    listed = list(values)
    return sum(listed) if all(isinstance(value, int) for value in listed) else math.fsum(listed)
