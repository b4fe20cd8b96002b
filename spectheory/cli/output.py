"""Printing, progress, standard input, and the check that no command overwrites a file by mistake."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.core.record import Record


class _Console(Console):
    """A console that leaves a broken pipe to the command, for which it is no error."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


console = _Console(stderr=False, markup=False)
errors = _Console(stderr=True, markup=False)
STANDARD_INPUT = "-"
EVERY = 60.0
"""Seconds between two lines of progress where there is no terminal."""
Kind = TypeVar("Kind", bound=Record)


def warn(said: str) -> None:
    """Print one warning on standard error."""
    errors.print(f"warning: {said}", soft_wrap=True, highlight=False)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Context manager that shows the progress of a stage. It gives a function to call with (finished, total).

    Standard error has a bar, which disappears at the end; one line a minute where it is no terminal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    printed = time.monotonic()
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=None)

        def update(finished: int, total: int) -> None:
            nonlocal printed
            bar.update(task, completed=finished, total=total)
            if not errors.is_terminal and time.monotonic() - printed >= EVERY:
                printed = time.monotonic()
                errors.print(f"{label}: {finished:,} of {total:,}", soft_wrap=True, highlight=False)

        yield update


def require_free(read: Iterable[str | Path | None], *outputs: Path | None, force: bool | None = None) -> None:
    """Check that every output can be written, before the first one is. None stands for no output.

    `force` is whether existing files may be replaced; None if the command has no such option.

    Raises:
        InputError: an output is one of the files in `read`, would be written twice, is a folder or a device, cannot be
            written, or exists and may not be replaced.
    """
    taken = {Path(path).resolve() for path in read if path and str(path) != STANDARD_INPUT}
    for path in outputs:
        if path is None:
            continue
        if path.resolve() in taken:
            raise InputError(f"{path} is another file of this command: name another file")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is {'a folder' if path.is_dir() else 'a device'}: name a file")
        if path.exists() and not force:
            raise InputError(f"{path} exists: {'name another file' if force is None else 'give --force'}")
        require_writable(path)
        taken.add(path.resolve())


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
        why = (
            f"no file can be created in {folder}: {error.strerror}" if folder.is_dir() else f"{folder} is not a folder"
        )
        raise InputError(f"{path} cannot be written, {why}; name another file") from None


def standard_input() -> str:
    """The text on standard input. Raises InputError if it is closed or not UTF-8."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not text in UTF-8 ({error.reason}): convert it to UTF-8") from error
    except (AttributeError, OSError, ValueError) as error:
        raise InputError("standard input is closed: redirect a file to it, or name the file") from error


def loaded(kind: type[Kind], file: Path) -> Kind:
    """The record in `file`, or from standard input if `file` is `-`."""
    if str(file) == STANDARD_INPUT:
        return kind.from_text(standard_input(), "standard input")
    return kind.load(file)


def show(
    record: Record,
    *renderables: RenderableType,
    as_json: bool,
    out: Path | None = None,
    pages: Mapping[Path, str] | None = None,
) -> None:
    """Save `record` to `out` and the texts of `pages`, where given. Print the record as JSON, or the renderables."""
    if out is not None:
        record.save(out)
    for path, text in (pages or {}).items():
        write_whole(path, text)
    if as_json:
        print(json.dumps(record.to_dict(), indent=1))
        return
    for each in renderables:
        plain = isinstance(each, str)  # which a reader may copy: a terminal breaks it, a file does not
        console.print(each, highlight=False if plain else None, soft_wrap=plain)
    if written := [str(path) for path in (out, *(pages or ())) if path is not None]:
        print(f"wrote {', '.join(written)}")
