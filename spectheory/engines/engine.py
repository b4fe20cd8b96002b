"""Engine: what spectheory knows about one serving engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spectheory.core.errors import InputError
from spectheory.engines.benchmark_file import BenchmarkFormat
from spectheory.engines.exports import Export, release
from spectheory.engines.observed import NO_ADVICE, Advice, Observer
from spectheory.engines.sglang_points import BenchPoint
from spectheory.engines.statistics import Statistics
from spectheory.planning.fitting import Fitting, PlainIsFastestError

Exporter = Callable[[Fitting, str], Export]
"""Exports a schedule for one of the engine's versions. It raises PlainIsFastestError if nothing beats plain decoding,
and InputError if this version cannot run the schedule."""
Reader = Callable[[str, int], Statistics | list[BenchPoint]]
"""Reads the text of a report. Its second argument is `min_trials`: depths reached in fewer cycles are left out. It
raises InputError if the report cannot be read."""


def text_of_file(path: Path) -> str:
    """The text in a file. Bytes that are not UTF-8 are replaced, because the logs of engines can contain them."""
    return path.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, eq=False)
class Engine:
    """One serving engine: how plans are exported to it, and how its reports are read.

    An engine of another package is registered as an entry point of the group `spectheory.engines`.

    Attributes:
        name: the name for the command line and for `spectheory.export`, such as "vllm".
        title: the name in tables, such as "vLLM".
        versions: the versions that the exporter was written against, newest last; each value says what is special in
            this version.
        parts: number of leading parts that tell two versions apart: with 2, version 0.31.2 is looked up as 0.31.
        exporter: exports a schedule; None for an engine to which plans cannot be exported.
        readers: the readers of its reports, by names such as "vllm-metrics".
        off: arguments that turn speculation off; empty if leaving out all arguments does this.
        text_of: reads the file of a report as text; set it for an engine whose reports are binary files.
        benchmarks: the formats of its benchmarks' files, by names such as "vllm-serve".
        observers: how its servers are observed, by names such as "vllm-metrics", for `spectheory.diagnose`.
        advice: what to change in it, for `spectheory.diagnose`.

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
    benchmarks: Mapping[str, BenchmarkFormat] = field(default_factory=dict)
    observers: Mapping[str, Observer] = field(default_factory=dict)
    advice: Advice = NO_ADVICE

    def __post_init__(self) -> None:
        if self.exporter is not None and not self.versions:
            raise InputError(f"versions of {self.title} must name a version that its exporter was written against")

    @property
    def newest(self) -> str:
        """The last of the versions."""
        return list(self.versions)[-1]

    def check_version(self, version: str | None = None) -> None:
        """Check that schedules can be exported for a version; default: the newest.

        Raises:
            InputError: the engine has no exporter, or the version is unknown.
        """
        self._exported(version)

    def _exported(self, version: str | None) -> tuple[Callable[[Fitting, str], Export], str]:
        """The exporter, and the key of a version."""
        if self.exporter is None:
            raise InputError(
                f"plans cannot be exported to {self.title}, only its reports can be read: "
                f"{', '.join([*self.readers, *self.benchmarks])}"
            )
        return self.exporter, release(self.title, version or self.newest, self.versions, self.parts)[0]

    def export(self, fitting: Fitting, version: str | None = None) -> Export:
        """Export the schedule of `fitting` for a version; default: the newest. Speculation is off if that is fastest.

        Raises:
            InputError: the engine has no exporter, the version is unknown, or it cannot run the schedule.
        """
        exporter, key = self._exported(version)
        try:
            made = exporter(fitting, key)
        except PlainIsFastestError as reason:
            return Export(self.title, key, self.off, {}, (f"{reason}: start it without speculation",))
        return made.after(*fitting.notes_of_draft(" ".join([*made.args, *made.files.values()])))
