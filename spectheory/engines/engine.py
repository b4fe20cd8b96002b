"""Engine: what spectheory knows about one serving engine, and `Export`, a plan as its flags and files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.engines.benchmark_file import BenchmarkFormat
from spectheory.engines.statistics import Statistics
from spectheory.planning.fitting import Fitting, PlainIsFastestError


@dataclass(frozen=True)
class Export:
    """A plan as the flags and files of an engine.

    Attributes:
        engine: the engine's title, such as "vLLM".
        version: the version of the engine that the flags and files are for.
        args: arguments for the engine's command line, in order.
        files: text of each file by its name; `args` names the files relative to the working directory.
        notes: what to know before using the export, such as how much slower it is than the plan.
    """

    engine: str
    version: str
    args: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """`args` as one line, quoted for a shell."""
        return shlex.join(self.args)

    def lines(self, written: Iterable[Path] = (), *, notes: int | None = None) -> list[str]:
        """Engine, command, `written` files, and the first `notes` notes, one line each; without a command all notes."""
        said = [f"{self.engine} {self.version}:", *[f"  {self.command}"] * bool(self.args)]
        said += [f"  wrote {path}" for path in written]
        return said + [f"  note: {note}" for note in self.notes[: notes if self.args else None]]

    def after(self, *notes: str) -> Export:
        """The same export with `notes` added before its own notes."""
        return replace(self, notes=(*notes, *self.notes))

    def write(self, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, ...]:
        """Write the files into `folder` and return their paths; an export without files writes nothing.

        Raises:
            InputError: a file exists and `overwrite` is False, so no file is written; or writing fails.
        """
        paths = {Path(folder) / name: text for name, text in self.files.items()}
        if not overwrite and (taken := next(filter(Path.exists, paths), None)):
            raise InputError(f"{taken} exists: give another folder or overwrite=True")
        for path, text in paths.items():
            write_whole(path, text)
        return tuple(paths)


@dataclass(frozen=True, eq=False)
class Observed:
    """What one served model did for a while. A figure that the log or the metrics do not have is None.

    Attributes:
        statistics: what was drafted and accepted; None if the server did not speculate.
        batch: mean number of sequences that decode together.
        step_seconds: mean seconds of a cycle, or of a plain step without speculation.
        draft_seconds: seconds of a cycle in which the draft runs.
        prompt_tokens: mean tokens of a prompt that are not in the prefix cache.
        output_tokens: mean tokens of an answer.
        drafted: drafted tokens per cycle, the root excluded, if the statistics do not count them.
        notes: sentences on what the figures contain, and on what was assumed.
    """

    statistics: Statistics | None = None
    batch: float | None = None
    step_seconds: float | None = None
    draft_seconds: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    drafted: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def tau(self) -> float:
        """Tokens of a sequence per target call, calls without a draft included; 1 without speculation."""
        found = self.statistics
        share = (found and found.drafted_share) or 1.0
        return 1.0 if found is None else 1 + share * ((found.tau or 1) - 1)

    @property
    def nodes(self) -> float | None:
        """Drafted tokens per cycle, the root excluded; 0 without speculation."""
        return 0.0 if self.statistics is None else self.statistics.nodes or self.drafted


@dataclass(frozen=True, eq=False)
class Reader:
    """How one kind of report is read. Both functions take the report and `min_trials`, and raise InputError.

    The report is its text, or for a Prometheus scrape the `Metrics` of one served model. Depths that were reached in
    fewer cycles than `min_trials` are left out.

    Attributes:
        statistics: reads what was drafted and accepted.
        observe: reads what the server did and how long it took; None if the report has no times.
        scraped: whether the report is a Prometheus scrape, so that two of them are subtracted.
        requests: the parts of a text that are of one request each, texts or responses; None if it adds them up.
    """

    statistics: Callable[[Any, int], Statistics]
    observe: Callable[[Any, int], Observed] | None = None
    scraped: bool = False
    requests: Callable[[str], Sequence[Any]] | None = None


def nothing_decoded() -> InputError:
    """The error for a report in which the server generated nothing."""
    return InputError("the report shows no decoding: take scrapes around traffic, or give a log with requests in it")


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
        exporter: exports a fitted schedule for a version; None for an engine to which plans cannot be exported. It
            raises PlainIsFastestError if nothing beats plain decoding, and InputError if the version cannot run it.
        readers: the readers of its reports, by names such as "vllm-metrics".
        off: arguments that turn speculation off; empty if leaving out all arguments does this.
        benchmarks: the formats of its benchmarks' files, by names such as "vllm-serve".
    """

    name: str
    title: str
    versions: Mapping[str, object] = field(default_factory=dict)
    parts: int = 2
    exporter: Callable[[Fitting, str], Export] | None = None
    readers: Mapping[str, Reader] = field(default_factory=dict)
    off: tuple[str, ...] = ()
    benchmarks: Mapping[str, BenchmarkFormat] = field(default_factory=dict)

    def release(self, version: str | None = None) -> str:
        """The key in `versions` of a version for which schedules can be exported; default: the newest.

        Raises:
            InputError: the engine has no exporter, or the version is unknown.
        """
        if self.exporter is None:
            known = ", ".join([*self.readers, *self.benchmarks])
            raise InputError(f"plans cannot be exported to {self.title}, only its reports can be read: {known}")
        known = list(self.versions)
        numbers = re.match(rf"\s*[vVb]?(\d+(?:\.\d+){{{self.parts - 1}}})", str(version or known[-1]))
        if numbers is None or numbers[1] not in self.versions:
            listed = ", ".join(known) if len(known) < 6 else f"{known[0]} to {known[-1]}"
            raise InputError(
                f"version must be a version of {self.title} that this exporter was written against ({listed}), got "
                f"{version!r}: export for the nearest of these, and check the flags"
            )
        return numbers[1]

    def export(self, fitting: Fitting, version: str | None = None) -> Export:
        """Export the schedule of `fitting` for a version; default: the newest. Speculation is off if that is fastest.

        Raises:
            InputError: the engine has no exporter, the version is unknown, or it cannot run the schedule.
        """
        key = self.release(version)
        try:
            made = self.exporter(fitting, key)  # pyrefly: ignore[not-callable]
        except PlainIsFastestError as reason:
            return Export(self.title, key, self.off, {}, (f"{reason}: start it without speculation",))
        return made.after(*fitting.notes_of_draft(" ".join([*made.args, *made.files.values()])))
