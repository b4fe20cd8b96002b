"""What the commands share: where they print, how they show progress, and what they may replace."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from spectheory.core.errors import InputError
from spectheory.core.files import GENERATOR
from spectheory.core.record import Record

console = Console(stderr=False)
errors = Console(stderr=True)
STANDARD_INPUT = "-"
PAGE = "page"


def warn(said: str) -> None:
    """One line on standard error."""
    errors.print(f"warning: {said}", soft_wrap=True, highlight=False, markup=False)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error where that is a terminal, gone when done; call it with (finished, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda finished, total: bar.update(task, completed=finished, total=total)


@dataclass(frozen=True)
class Output:
    """A file that is about to be written.

    Attributes:
        path: where, None where nothing was asked for.
        kind: of the record, `PAGE`, or None for a file that cannot be told from one that a person wrote.
        text: what it will hold, where that is known already.
    """

    path: Path | None
    kind: str | None
    text: str | None = None


def require_free(read: Iterable[str | Path | None], *outputs: Output, force: bool | None = None) -> None:
    """Check all that is about to be written, before the first of it is.

    A file that is there is replaced with `force`; without it only a record by one of its kind, a page of spectheory by
    a page, and what holds the same text already. `force` is None for a command that has no such option.

    Raises:
        InputError: a file is one of those that are `read`, is written twice, is a folder, cannot be written, or is
            there and may not be replaced.
    """
    taken = {Path(path).resolve(): "an input of this command" for path in read if path and str(path) != STANDARD_INPUT}
    for output in outputs:
        if output.path is None:
            continue
        here = output.path.resolve()
        found = taken.get(here) or (None if force else _other_record(here, output))
        if found:
            raise InputError(f"{output.path} is {found}: writing would replace it, name another file")
        if here.exists() and not here.is_file():
            raise InputError(f"{output.path} is {'a folder' if here.is_dir() else 'a device'}: name a file")
        if here.exists() and not force and not _is_replaceable(here, output):
            repair = "remove it" if force is None else "replace it with --force"
            raise InputError(f"{output.path} is there already: name another file or folder, or {repair}")
        _require_writable(output.path)
        taken[here] = "written already by this command"


def _other_record(path: Path, output: Output) -> str | None:
    """What record `path` holds, in words, where it holds one of another kind."""
    there = _kind_of(path)
    return f"a record of kind {there!r}" if there not in (None, PAGE, output.kind) else None


def _is_replaceable(path: Path, output: Output) -> bool:
    return _kind_of(path) == output.kind is not None or (output.text is not None and _read(path) == output.text)


def _kind_of(path: Path) -> str | None:
    """The kind of the record in `path`, `PAGE` for a page of ours, None for anything else."""
    text = _read(path)
    if GENERATOR in text:
        return PAGE
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found.get("kind") if isinstance(found, dict) and "schema" in found else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, ValueError):
        return ""


def _require_writable(path: Path) -> None:
    """Check that a file can be made where `path` is to be, or where its missing folders are."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = f"no file can be made in {folder}: {error.strerror}" if folder.is_dir() else f"{folder} is no folder"
        raise InputError(f"{path} cannot be written, {why}; name another file") from None


Kind = TypeVar("Kind", bound=Record)


def loaded(kind: type[Kind], file: Path) -> Kind:
    """The record in `file`, or on standard input where that is `-`."""
    if str(file) == STANDARD_INPUT:
        return kind.from_text(sys.stdin.read(), "standard input")
    return kind.load(file)


def show(
    record: Record, *renderables: RenderableType, as_json: bool, out: Path | None = None, force: bool | None = None
) -> None:
    """Save `record` to `out` where one is named, and print it: as JSON, or as the renderables."""
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
