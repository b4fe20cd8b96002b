"""Export: a plan as the flags and files of an engine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

Entry = TypeVar("Entry")


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

    def after(self, *notes: str) -> Export:
        """The same export with `notes` added before its own notes."""
        return replace(self, notes=(*notes, *self.notes))

    def write(self, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, ...]:
        """Write the files into `folder` and return their paths; an export without files writes nothing.

        Raises:
            InputError: a file exists with another text and `overwrite` is False, so no file is written; or writing
                fails.
        """
        paths = {Path(folder) / name: text for name, text in self.files.items()}
        for path, text in paths.items():
            if not overwrite and path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
                raise InputError(f"{path} already exists: name another folder, or replace it with overwrite=True")
        for path, text in paths.items():
            write_whole(path, text)
        return tuple(paths)


def release(engine: str, version: str, table: Mapping[str, Entry], parts: int = 2) -> tuple[str, Entry]:
    """(key, entry) of `version` in `table`, where a key is the first `parts` numbers of a version.

    Raises:
        InputError: `version` is not in the table. The message lists the known versions.
    """
    numbers = re.match(rf"\s*[vVb]?(\d+(?:\.\d+){{{parts - 1}}})", str(version))
    key = numbers.group(1) if numbers else ""
    if key not in table:
        known = ", ".join(table) if len(table) < 6 else f"{next(iter(table))} to {next(reversed(list(table)))}"
        raise InputError(
            f"version must be a version of {engine} that this exporter was written against ({known}), got {version!r}: "
            "export for the nearest of these, and check the flags"
        )
    return key, table[key]
