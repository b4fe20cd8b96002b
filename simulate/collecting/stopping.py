"""Stop: when a task has been counted often enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simulate.collecting.results import TaskResult
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class Stop:
    """The rule by which a task stops.

    It is applied after `least` blocks, after twice as many, and so on, always to the blocks of the lowest numbers.
    The stopping point thus depends on the task alone, not on how many workers there are or which is faster. The
    interval is the one of a fixed number of blocks; it is not widened for the looks before the last.

    Attributes:
        blocks: maximum number of blocks of a task.
        half_width: stop as soon as half the 95% interval of the figure is at most this; None sets no limit.
        relative: stop as soon as half the 95% interval is at most this share of the figure; None sets no limit.
        figure: name of the figure; default: the first one of each task.
        least: number of blocks before the first look. Few blocks give unreliable intervals.

    Raises:
        InputError: a number is out of range.
    """

    blocks: int = 64
    half_width: float | None = None
    relative: float | None = None
    figure: str = ""
    least: int = 8

    def __post_init__(self) -> None:
        check_whole("blocks", self.blocks, 1)
        check_whole("least", self.least, 2)
        for name in ("half_width", "relative"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise InputError(f"{name} must be finite and above 0, got {value!r:.80}: leave it out for no limit")

    @property
    def by_width(self) -> bool:
        """Whether a width can end a task before `blocks` does."""
        return self.half_width is not None or self.relative is not None

    def looks(self) -> Iterator[int]:
        """The numbers of blocks after which the rule is applied; the last one is `blocks`."""
        count = self.least
        while self.by_width and count < self.blocks:
            yield count
            count *= 2
        yield self.blocks

    def is_reached(self, result: TaskResult) -> bool:
        """Whether the blocks of `result` are enough.

        Blocks that all give the same ratio say nothing about the width, so a width of exactly 0 is not enough.
        """
        if result.counted >= self.blocks:
            return True
        if not self.by_width:
            return False
        found = result.estimate(self.figure)
        if found.half_width is None or not found.half_width > 0:
            return False
        narrow = self.half_width is None or found.half_width <= self.half_width
        return narrow and (self.relative is None or found.half_width <= self.relative * abs(found.value))
