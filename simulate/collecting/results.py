"""Collected: the counted blocks of tasks, their figures with intervals, and tables of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from simulate.collecting.statistics import Statistics
from simulate.collecting.task import Figure, Task
from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters, ratio_half_width

if TYPE_CHECKING:
    from rich.console import Group

    from spectheory.report.tables import TextTable

LEVEL = 0.95
"""The level of every interval."""


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95% interval.

    Attributes:
        figure: what was estimated.
        value: the ratio of both totals; NaN if the denominator is 0.
        low, high: the interval; None if there are fewer than two blocks with a denominator above 0.
    """

    figure: Figure
    value: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; None if there is none."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


@dataclass(frozen=True)
class TaskResult:
    """The counted blocks of one task.

    Only the longest run of consecutive numbers from the lowest one counts. Blocks after a gap are left out until the
    gap is filled: those that finish first need not be like the others.

    Attributes:
        identity, name, figures: of the task.
        settings: settings of the task, as plain JSON values.
        blocks: statistics by number of the block.
    """

    identity: str
    name: str
    settings: Mapping[str, Any]
    figures: tuple[Figure, ...]
    blocks: Mapping[int, Statistics] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", dict(sorted(self.blocks.items())))
        numbers = list(self.blocks)
        for number in numbers[1:]:
            first, other = f"block {numbers[0]} of task {self.name!r}", f"block {number}"
            self.blocks[numbers[0]].require_same_names(self.blocks[number], first, other)

    @classmethod
    def of_task(cls, task: Task, blocks: Mapping[int, Statistics]) -> Self:
        """The result of a task with these blocks."""
        return cls(task.identity, task.name, task.description["settings"], tuple(task.figures), blocks)

    @cached_property
    def run(self) -> tuple[Statistics, ...]:
        """The blocks that count, in the order of their numbers."""
        found = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(self.blocks, itertools.count(self.first)))
        return tuple(self.blocks[number] for number, _ in found)

    @property
    def first(self) -> int:
        """The lowest number of a block; 0 if there are none."""
        return next(iter(self.blocks), 0)

    @property
    def counted_numbers(self) -> range:
        """The numbers of the blocks that count."""
        return range(self.first, self.first + len(self.run))

    @property
    def counted(self) -> int:
        """Number of blocks that count."""
        return len(self.run)

    @property
    def left_out(self) -> int:
        """Number of blocks after the first gap."""
        return len(self.blocks) - self.counted

    @cached_property
    def total(self) -> Statistics:
        """The sum of the blocks that count. It does not depend on the order in which they were counted."""
        return Statistics.sum(self.run)

    def figure(self, name: str = "") -> Figure:
        """The figure of this name; default: the first one."""
        found = next((figure for figure in self.figures if figure.name == (name or figure.name)), None)
        if found is None:
            known = ", ".join(figure.name for figure in self.figures) or "no figures"
            raise InputError(
                f"task {self.name!r} has no figure {name!r}, it has {known}: give the Task "
                "figures=(simulate.Figure(name, numerator, denominator),)"
            )
        return found

    def estimate(self, figure: str | Figure = "") -> Estimate:
        """A figure, by name or as such, with its 95% interval. Blocks count as independent.

        Raises:
            InputError: there is no such figure, or a block has no such total.
        """
        wanted = figure if isinstance(figure, Figure) else self.figure(figure)
        if not self.run:
            return Estimate(wanted, math.nan, None, None)
        above, below = self._column(wanted.numerator), self._column(wanted.denominator)
        over, under = math.fsum(above), math.fsum(below)
        value = over / under if under else math.nan
        if wanted.share:
            return Estimate(wanted, value, *_share_interval(over, under, wanted))
        if clusters(np.array(below)) < 2:
            return Estimate(wanted, value, None, None)
        half = ratio_half_width(np.array(above), np.array(below), LEVEL)
        return Estimate(wanted, value, value - half, value + half)

    def influences(self, figure: Figure) -> tuple[float, np.ndarray]:
        """The value of a figure, and by how much each block moves it (linearised); these sum to 0.

        The value is NaN if the denominator is 0.
        """
        above, below = np.array(self._column(figure.numerator)), np.array(self._column(figure.denominator))
        total = math.fsum(below) or math.nan
        value = math.fsum(above) / total
        return value, (above - value * below) / total

    def estimates(self) -> tuple[Estimate, ...]:
        """All figures of the task."""
        return tuple(self.estimate(figure) for figure in self.figures)

    def _column(self, name: str) -> list[float]:
        """The total `name` of each block that counts; ones if the name is ""."""
        if name and name not in self.run[0].totals:
            raise InputError(
                f"task {self.name!r} has no total {name!r}, its blocks have {', '.join(self.run[0].totals)}: name one "
                "of these in the Figure"
            )
        return [float(part.totals[name]) if name else 1.0 for part in self.run]

    def __add__(self, other: TaskResult) -> Self:
        """The blocks of both. A block that both have counts once.

        Raises:
            InputError: the results are of different tasks, or contradict each other.
        """
        if not isinstance(other, TaskResult):
            return NotImplemented
        if self.identity != other.identity:
            raise InputError(
                f"results of different tasks cannot be added: {self.name!r} ({self.identity[:12]}) and {other.name!r} "
                f"({other.identity[:12]})"
            )
        for number in sorted(self.blocks.keys() & other.blocks.keys()):
            if self.blocks[number] != other.blocks[number]:
                raise InputError(contradiction(self.name, number))
        return replace(self, blocks={**self.blocks, **other.blocks})


def contradiction(name: str, number: int) -> str:
    """The error message for a block that has two different results."""
    return (
        f"block {number} of task {name!r} was counted twice with different results: its function must take all random "
        "numbers from the block, and its version must be increased when its code changes; start a new folder"
    )


@dataclass(frozen=True)
class Collected:
    """The results of several tasks.

    Attributes:
        results: one `TaskResult` for each task.
    """

    results: tuple[TaskResult, ...]

    def __getitem__(self, task: Task | str) -> TaskResult:
        """The result of a task, given as such or by its name."""
        names = (task.identity,) if isinstance(task, Task) else (task,)
        found = [result for result in self.results if result.identity in names or result.name in names]
        if len(found) != 1:
            known = ", ".join(repr(result.name) for result in self.results[:8]) or "none"
            raise InputError(
                f"there must be one result of the task {task!r:.80}, got {len(found)}: give the Task itself, or one of "
                f"these names: {known}"
            )
        return found[0]

    def __add__(self, other: Collected) -> Self:
        """The results of both; blocks of the same task are put together."""
        if not isinstance(other, Collected):
            return NotImplemented
        found = {result.identity: result for result in self.results}
        for result in other.results:
            found[result.identity] = found[result.identity] + result if result.identity in found else result
        return replace(self, results=tuple(found.values()))

    def difference(self, first: Task | str, second: Task | str, figure: str = "") -> Estimate:
        """A figure of the second task minus that of the first, over the blocks that both have, with its 95% interval.

        Blocks of the same number are pairs. Where both tasks have the same stream and seed, a pair has met the same
        random numbers, and what both share cancels: the interval is narrower than the figures' own intervals. Otherwise
        it is as wide as for independent tasks.

        Args:
            first: a task, given as such or by its name.
            second: the other task, given in the same way.
            figure: name of a figure that both have; default: the first figure of `first`.

        Raises:
            InputError: there is no such task or figure, or the tasks have no block in common.
        """
        pair = (self[first], self[second])
        wanted = pair[0].figure(figure)
        shared = sorted(set(pair[0].counted_numbers) & set(pair[1].counted_numbers))
        if not shared:
            raise InputError(
                f"tasks {pair[0].name!r} and {pair[1].name!r} have no block in common: collect both with the same "
                "first_block"
            )
        parts = [replace(result, blocks={number: result.blocks[number] for number in shared}) for result in pair]
        (low, low_influence), (high, high_influence) = (part.influences(part.figure(wanted.name)) for part in parts)
        if len(shared) < 2:
            return Estimate(wanted, high - low, None, None)
        half = ratio_half_width(len(shared) * (high_influence - low_influence), np.ones(len(shared)), LEVEL)
        return Estimate(wanted, high - low, high - low - half, high - low + half)

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict a task: name, single settings, blocks, totals, and figures with their intervals."""
        return [_row(result) for result in self.results]

    def table(self) -> TextTable:
        """The figures of all tasks, with half-widths of their 95% intervals."""
        from spectheory.report.tables import MISSING, TextTable

        names = tuple(dict.fromkeys(figure.name for result in self.results for figure in result.figures))

        def cell(result: TaskResult, name: str) -> str:
            known = name in {figure.name for figure in result.figures}
            return _shown(result.estimate(name)) if known else MISSING

        left_out = sum(result.left_out for result in self.results)
        return TextTable(
            title="Collected figures, ± half of the 95% interval",
            header=("task", *names, "blocks"),
            rows=tuple(
                (result.name, *(cell(result, name) for name in names), f"{result.counted:,}") for result in self.results
            ),
            note=f"{left_out:,} blocks after a gap are left out: call collect again to fill it" if left_out else "",
        )

    def __rich__(self) -> Group:
        return self.table().__rich__()


def _row(result: TaskResult) -> dict[str, Any]:
    scalars = {name: value for name, value in result.settings.items() if isinstance(value, bool | int | float | str)}
    row = {"task": result.name, "identity": result.identity, **scalars, "blocks": result.counted}
    row |= {f"total_{name}": value for name, value in result.total.totals.items()} if result.run else {}
    for found in result.estimates():
        name = found.figure.name
        row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return row


def _shown(found: Estimate) -> str:
    half = found.half_width
    if half is None:
        return f"{found.value:.4g}"
    digits = 3 if half == 0 else max(0, 1 - math.floor(math.log10(half)))
    return f"{found.value:.{digits}f}\n±{half:.{digits}f}"


def _share_interval(successes: float, trials: float, figure: Figure) -> tuple[float | None, float | None]:
    """Clopper and Pearson's interval of a share."""
    from scipy.stats import beta

    if not trials:
        return None, None
    if not 0 <= successes <= trials:
        raise InputError(
            f"the share {figure.name!r} has {figure.numerator}={successes:g} of {figure.denominator}={trials:g}: the "
            "numerator of a share must count some of the trials"
        )
    quantile: Any = beta.ppf
    tail = (1 - LEVEL) / 2
    low = float(quantile(tail, successes, trials - successes + 1)) if successes else 0.0
    high = float(quantile(1 - tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return low, high
