"""Printing, progress bars, and the check that no command overwrites a file by mistake."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from pathlib import Path
from threading import Timer
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from spectheory.core.errors import InputError
from spectheory.core.files import GENERATOR, owned, write_whole
from spectheory.core.record import Record


class _Console(Console):
    """A console that leaves a broken pipe to the command, for which it is no error."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


console = _Console(stderr=False, markup=False)
errors = _Console(stderr=True, markup=False)
STANDARD_INPUT = "-"
PAGE = "page"
LONG, EVERY, ENOUGH, SOON = 45.0, 20.0, 5.0, 1.0
"""Seconds: a stage that takes at least LONG says so, and off a terminal what is left, at most once in EVERY seconds. It
knows its speed once it has timed steps for ENOUGH seconds. A stage of a long command that has not ended after SOON
says that it measures its speed."""


def warn(said: str) -> None:
    """Print one warning on standard error."""
    errors.print(f"warning: {said}", soft_wrap=True, highlight=False, markup=False)


class _Remaining:
    """Lines about a stage that takes long: how long it takes as soon as that is known, then what is left.

    `shorter` is advice such as "lower --count"; `share` is the share of the steps that --quick would leave, 1 if the
    command has no such option. `repeated` is whether lines follow the first, as off a terminal. `announced` is whether
    the stage says that it measures its speed before it knows it. `spoken` is whether even a short stage says how long
    it takes.
    """

    def __init__(
        self, label: str, shorter: str, share: float, repeated: bool, announced: bool, *, spoken: bool
    ) -> None:
        self.label, self.shorter, self.share, self.repeated = label, shorter, share, repeated
        self.announced, self.spoken = announced, spoken
        self.begun: tuple[int, float] | None = None
        self.entered, self.said = time.monotonic(), 0.0
        self.last: tuple[int, int, float] | None = None
        self.from_zero = False

    def update(self, finished: int, total: int) -> None:
        """Print a line if one is due.

        The first report does not count for the speed: it holds what happens once, such as compiling, and the steps of
        an earlier, interrupted run. Where a report of 0 finished steps came before it and it took long, it gives an
        upper estimate. Other steps that follow, with another total, are timed anew, and nothing is known about what
        --quick would leave of them.
        """
        now = time.monotonic()
        if self.last is not None and (finished < self.last[0] or total != self.last[1]):
            self.begun, self.from_zero, self.entered, self.said, self.share = None, False, self.last[2], 0.0, 1.0
        self.last = finished, total, now
        if finished == 0:
            self.from_zero = True
            return
        if self.begun is None:
            self.begun = finished, now
            if self.from_zero and now - self.entered >= ENOUGH:
                self._say(finished, total, now, (now - self.entered) / finished, "up to about")
            return
        done, seconds = finished - self.begun[0], now - self.begun[1]
        if done >= 1 and (seconds >= ENOUGH or self.spoken):
            self._say(finished, total, now, seconds / done, "about")

    def _say(self, finished: int, total: int, now: float, step: float, about: str) -> None:
        """Print how long the stage takes or what is left, if `step` is the seconds of a step and a line is due."""
        left = step * (total - finished)
        is_long = self.said > 0 or now - self.entered + left >= LONG
        if finished >= total or now - self.said < EVERY or not (is_long or self.spoken):
            return
        if not self.said:
            whole = duration(now - self.entered + left)
            quick = f": about {duration(self.share * step * total)}" if self.share < 1 else ""
            self._print(f"takes {about} {whole} on this machine{self._advice(quick) if is_long else ''}")
            self.spoken = False
        elif self.repeated:
            self._print(f"{finished:,} of {total:,}, about {duration(left)} left")
        if is_long:
            self.said, self.announced = now, False

    def announce(self) -> None:
        """Print that the speed is measured, if nothing was printed yet."""
        if self.announced:
            self._print(f"measuring its speed; if it takes over {LONG:g} seconds, an estimate follows{self._advice()}")
        self.announced = False

    def _advice(self, quick: str = "") -> str:
        """What shortens the stage; `quick` says how long it takes with --quick."""
        shorter = f"; {self.shorter} to shorten it" if self.shorter else ""
        return f"{shorter}, or give --quick{quick}" if self.share < 1 else shorter

    def _print(self, said: str) -> None:
        errors.print(f"{self.label}: {said}", soft_wrap=True, highlight=False, markup=False)


def duration(seconds: float) -> str:
    """Some seconds in words, such as "3 minutes"."""
    for size, name in ((3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.{int(size == 3600)}f} {name}s"
    return f"{max(1, round(seconds))} seconds" if round(seconds) > 1 else "1 second"


LOWERED: ContextVar[dict[str, float]] = ContextVar("lowered")
"""For each option that --quick would lower in the running command: its lower value divided by its value."""


@contextmanager
def progress(
    label: str, shorter: str = "", *scaling: str, announced: bool = False, what: str = ""
) -> Iterator[Callable[[int, int], None]]:
    """Context manager that reports the progress of a stage. It gives a function to call with (finished, total).

    On a terminal a bar is shown on standard error, which disappears at the end. Elsewhere a stage that takes long
    prints a line now and then, with what is left. In both cases it first prints how long it takes, as soon as its steps
    show it, and `shorter`, advice such as "lower --count". The time of the stage is proportional to the options
    `scaling`, which --quick may lower. Before that, a stage that is `announced` says that it measures its speed; `what`
    says instead what the stage does, and then even a short stage says how long it takes, from its first two steps.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    share = prod(LOWERED.get({}).get(name, 1.0) for name in scaling)
    lines = _Remaining(label, shorter, share, not errors.is_terminal, announced and not what, spoken=bool(what))
    if what:
        errors.print(f"{label}: {what}", soft_wrap=True, highlight=False, markup=False)
    soon = Timer(SOON, lines.announce)
    soon.daemon = True
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=None)

        def update(finished: int, total: int) -> None:
            bar.update(task, completed=finished, total=total)
            lines.update(finished, total)

        soon.start()
        try:
            yield update
        finally:
            soon.cancel()


@dataclass(frozen=True)
class Output:
    """A file that a command is about to write.

    Attributes:
        path: the path of the file; None if no file was requested.
        kind: the kind of the record, `PAGE` for an HTML page, or None for any other file.
        text: the text that will be written, if it is known already.
    """

    path: Path | None
    kind: str | None
    text: str | None = None


def require_free(read: Iterable[str | Path | None], *outputs: Output, force: bool | None = None) -> None:
    """Check that every output can be written, before the first one is.

    Without `force`, an existing file may be replaced only if it is a record of the same kind, if it is a page of
    spectheory and the output is a page, or if its text stays the same. `force` is None if the command lacks the option.

    Raises:
        InputError: an output is one of the files in `read`, would be written twice, is a folder, cannot be written, or
            exists and may not be replaced.
    """
    taken = {Path(path).resolve(): "an input of this command" for path in read if path and str(path) != STANDARD_INPUT}
    for output in outputs:
        if output.path is None:
            continue
        here = output.path.resolve()
        held = None if force else _kind_of(here)
        found = taken.get(here) or (f"a record of kind {held!r}" if held not in (None, PAGE, output.kind) else None)
        if found:
            raise InputError(f"{output.path} is {found}: writing would replace it, name another file")
        if here.exists() and not here.is_file():
            raise InputError(f"{output.path} is {'a folder' if here.is_dir() else 'a device'}: name a file")
        same = held == output.kind is not None or (output.text is not None and _read(here) == output.text)
        if here.exists() and not force and not same:
            repair = "remove it" if force is None else "replace it with --force"
            raise InputError(f"{output.path} already exists: name another file or folder, or {repair}")
        require_writable(output.path)
        taken[here] = "another output of this command"


@contextmanager
def only_writer(out: Path | None) -> Iterator[None]:
    """Context manager that makes this process the only writer of `out`, a file that is written again and again."""
    if out is None:
        yield
        return
    with owned(out, out.with_name(f"{out.name}.lock"), "name another file"):
        yield


def _kind_of(path: Path) -> str | None:
    """The kind of the record in `path`, `PAGE` for a page of spectheory, None for anything else."""
    text = _read(path)
    if GENERATOR in text:
        return PAGE
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found.get("kind") if isinstance(found, dict) and "schema" in found else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, ValueError):
        return ""


def require_writable(path: Path) -> None:
    """Check that a file can be created in the folder of `path`, or in its nearest existing parent folder.

    Raises:
        InputError: it cannot, or the nearest existing parent is no folder.
    """
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = f"{folder} is not a folder"
        if folder.is_dir():
            why = f"no file can be created in {folder}: {error.strerror}"
        raise InputError(f"{path} cannot be written, {why}; name another file") from None


Kind = TypeVar("Kind", bound=Record)


def standard_input() -> str:
    """The text on standard input. Raises InputError if it is closed or not UTF-8."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not text in UTF-8 ({error.reason}): convert it to UTF-8") from error
    except (AttributeError, OSError, ValueError) as error:
        raise InputError("standard input is closed: redirect a file to it, or name the file") from error


def loaded(kind: type[Kind], file: Path) -> Kind:
    """The record in `file`, or from standard input if `file` is `-`."""
    if str(file) == STANDARD_INPUT:
        return kind.from_text(standard_input(), "standard input")
    return kind.load(file)


def show_files(
    record: Record,
    words: Iterable[str],
    tables: Iterable[RenderableType],
    files: Iterable[tuple[Path, str]],
    *,
    as_json: bool,
) -> None:
    """Write the texts of files. Print `record` as JSON, or print the words, the tables and the names of the files."""
    names = []
    for path, text in files:
        write_whole(path, text)
        names.append(str(path))
    if as_json:
        print(json.dumps(record.to_dict(), indent=1))
        return
    for line in words:
        console.print(line, highlight=False)
    for table in tables:
        console.print()
        console.print(table)
    if names:
        print(f"wrote {', '.join(names)}")


def show(
    record: Record, *renderables: RenderableType, as_json: bool, out: Path | None = None, force: bool | None = None
) -> None:
    """Save `record` to `out` if that is given. Print it as JSON, or print the renderables."""
    if out is not None:
        require_free([], Output(out, record.kind), force=force)
        record.save(out)
    if as_json:
        print(json.dumps(record.to_dict(), indent=1))
        return
    for renderable in renderables:
        console.print(renderable)
    if out is not None:
        print(f"wrote {out}")
