"""Engine: what spectheory knows about one serving engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spectheory.core.errors import InputError
from spectheory.engines.bench_point import BenchPoint
from spectheory.engines.exports import Export, release
from spectheory.engines.statistics import Statistics
from spectheory.planning.fitting import Fitting, PlainIsFastestError

Exporter = Callable[[Fitting, str], Export]
"""The export of a schedule for one of the engine's versions. It raises PlainIsFastestError where nothing beats plain
decoding, and InputError where that version cannot run the schedule."""
Reader = Callable[[str, int], Statistics | list[BenchPoint]]
"""Statistics from the text of a report. Depths that were reached fewer times than the second argument are left out. It
raises InputError where the report cannot be read."""


def text_of_file(path: Path) -> str:
    """The text of a report in a file; bytes that are not UTF-8 are replaced, as they are in the logs of engines."""
    return path.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, eq=False)
class Engine:
    """One serving engine: the versions and exporter of its plans, the readers of its reports.

    An engine of another package is registered as an entry point of the group `spectheory.engines`.

    Attributes:
        name: the name for the command line and for `spectheory.export`, such as "vllm".
        title: the name for people, such as "vLLM".
        versions: the versions that the exporter was written against, newest last, with what differs between them.
        parts: how many numbers of a version tell the versions apart.
        exporter: makes the export of a schedule; None for an engine that takes no plans.
        readers: the readers of its reports, by names such as "vllm-metrics".
        off: arguments that turn speculation off, for an engine that needs more than leaving speculation out.
        text_of: reads the file of a report as text; set it for an engine whose reports are binary files.

    Raises:
        InputError: there is an exporter without versions.
    """

    name: str
    title: str
    versions: Mapping[str, object] = field(default_factory=dict)
    parts: int = 2
    exporter: Exporter | None = None
    readers: Mapping[str, Reader] = field(default_factory=dict)
    off: tuple[str, ...] = ()
    text_of: Callable[[Path], str] = text_of_file

    def __post_init__(self) -> None:
        if self.exporter is not None and not self.versions:
            raise InputError(f"versions of {self.title} must name a version that its exporter was written against")

    @property
    def newest(self) -> str:
        """The last of the versions."""
        return list(self.versions)[-1]

    def export(self, fitting: Fitting, version: str | None = None) -> Export:
        """The schedule of `fitting` for a version, default the newest; without speculation where that is fastest.

        Raises:
            InputError: the engine takes no plans, the version is unknown, or it cannot run the schedule.
        """
        if self.exporter is None:
            raise InputError(f"{self.title} takes no plans, it gives reports alone: {', '.join(self.readers)}")
        key, _ = release(self.title, version or self.newest, self.versions, self.parts)
        try:
            return self.exporter(fitting, key)
        except PlainIsFastestError as reason:
            return Export(self.title, key, self.off, {}, (f"{reason}: start it without speculation",))
