"""Export: a plan as an engine takes it, for one of the versions that the exporter was written against."""

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
    """A plan as an engine takes it.

    Attributes:
        engine: the engine's title, such as "vLLM".
        version: the version of the engine that it was written for.
        args: arguments of the engine's command line, in order.
        files: texts by file name; `args` names them relative to the working directory.
        notes: what a person should know before using it, such as what it loses against the plan.
    """

    engine: str
    version: str
    args: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """`args` quoted for a shell."""
        return shlex.join(self.args)

    def after(self, *notes: str) -> Export:
        """The same export with more notes, before its own."""
        return replace(self, notes=(*notes, *self.notes))

    def write(self, folder: str | Path, *, overwrite: bool = False) -> tuple[Path, ...]:
        """Write the files into `folder` and return their paths; an export without files writes nothing.

        Raises:
            InputError: a file with another text is there and `overwrite` is False, or a file cannot be written. No file
                is written where one may not be replaced.
        """
        paths = {Path(folder) / name: text for name, text in self.files.items()}
        for path, text in paths.items():
            if not overwrite and path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
                raise InputError(f"{path} is there already: name another folder, or replace it with overwrite=True")
        for path, text in paths.items():
            write_whole(path, text)
        return tuple(paths)


def release(engine: str, version: str, table: Mapping[str, Entry], parts: int = 2) -> tuple[str, Entry]:
    """The first `parts` numbers of `version`, which are its key in `table`, and its entry there.

    Raises:
        InputError: `version` is not in the table; the known versions are listed.
    """
    numbers = re.match(rf"\s*[vVb]?(\d+(?:\.\d+){{{parts - 1}}})", str(version))
    key = numbers.group(1) if numbers else ""
    if key not in table:
        known = ", ".join(table) if len(table) < 6 else f"{next(iter(table))} to {next(reversed(list(table)))}"
        raise InputError(
            f"version must be one of {engine} that this exporter was written against ({known}), got {version!r}: "
            "ask for the one nearest to yours and check its flags"
        )
    return key, table[key]
