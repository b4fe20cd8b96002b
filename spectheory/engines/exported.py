"""A plan in an engine's own words, and the table of versions that an exporter was written against."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from spectheory.core.errors import InputError

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Export:
    """A plan as an engine takes it.

    Attributes:
        engine: its name.
        version: the version it was written and checked for.
        args: arguments of the engine's command line, in order.
        files: texts by file name; `args` name them relative to the working directory.
        notes: what a person should know before using it.
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


def release(engine: str, version: str, table: Mapping[str, Entry], parts: int = 2) -> tuple[str, Entry]:
    """The key of `table`, the first `parts` numbers of `version`, and its entry.

    Raises:
        InputError: `version` is not in the table; the known ones are listed.
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
