"""Folders of results. A folder belongs to one run, such as a trace, and has one writer at a time."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spectheory import Provenance
from spectheory.core.errors import InputError
from spectheory.core.files import owned, read_text, write_whole
from spectheory.core.record import parse, to_json

STAMP = "provenance.json"
"""Name of the file that holds the settings, versions and date of a folder."""
KEPT = "*.parquet", "*.safetensors", "*.pt"
"""Files of results. A folder that has some, and no provenance, is not taken for one of this package."""


class ForeignFolderError(InputError):
    """A folder holds results of other models, prompts, settings or versions."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Context manager that makes this process the only writer of `folder`, and removes what a killed writer left.

    Raises:
        InputError: another process writes to the folder, or it cannot be made.
    """
    with owned(folder, folder / "writer.lock", "name another folder"):
        for left in folder.glob("*.partial"):
            left.unlink(missing_ok=True)
        yield


@contextmanager
def claimed(folder: Path, what: str, **fields: Any) -> Iterator[None]:
    """Context manager that reserves `folder` for `what`, such as "trace", and makes this process its only writer.

    The provenance in the folder, which has these `fields`, is written first if the folder has none.

    Raises:
        InputError: the folder cannot be made, or holds results without their provenance.
        InUseError: another process is the only writer of the folder.
        ForeignFolderError: the folder is reserved for something else, or with other fields or versions.
    """
    here, repair = Provenance.now(f"spectheory {what}", packages=("torch", "transformers"), **fields), "remove this one"
    with only_writer(folder):
        if (folder / STAMP).exists():
            require_kind(folder, what)
            if differing := differences(stamp_of(folder).identity, here.identity):
                raise ForeignFolderError(f"{folder} holds a {what} with {differing}: name an empty folder or {repair}")
        elif found := next((file for kind in KEPT for file in sorted(folder.glob(kind))), None):
            raise InputError(f"{folder} holds {found.name} without its {STAMP}: name an empty folder or {repair}")
        else:
            write_whole(folder / STAMP, to_json(here.to_dict()))
        yield


def require_kind(folder: Path, what: str) -> None:
    """Raise ForeignFolderError if the provenance in `folder` is of something else; a folder may have none yet."""
    if (folder / STAMP).exists() and (held := stamp_of(folder).source.removeprefix("spectheory ")) != what:
        raise ForeignFolderError(f"{folder} holds a {held}, not a {what}: name another folder")


def short_hash(values: object) -> str:
    """A hash of values that JSON can hold, as 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """List what differs, as in "another seed (0, here 1), temperature (1, here 0)"; "" if nothing differs.

    Hashes and long values are left out, as in "other prompts". Models with equal weights are equal, whatever their
    folders are called.
    """

    def described(name: str) -> str:
        values = str(theirs.get(name, "not recorded")), str(ours.get(name, "not set"))
        if any(len(value) > 60 or re.fullmatch("[0-9a-f]{16}", value) for value in values):
            return name
        return f"{name} ({values[0]}, here {values[1]})"

    same_weights = "weights" in theirs and theirs["weights"] == ours.get("weights")
    compared = sorted({*theirs, *ours} - ({"target", "draft"} if same_weights else set()))
    differing = [name for name in compared if theirs.get(name) != ours.get(name)]
    if not differing:
        return ""
    return f"{'other' if differing[0].endswith('s') else 'another'} {', '.join(map(described, differing))}"


def check_same(found: Provenance, here: Provenance) -> None:
    """Raise InputError if a record was begun by another command, on another machine or with other settings."""
    theirs, ours = ({**p.identity, "machine": p.machine} for p in (found, here))
    if found.source != here.source:
        raise InputError(f"the record is from {found.source!r}, not from {here.source!r}: name a new file or remove it")
    if differing := differences(theirs, ours):
        raise InputError(f"the record was begun with {differing}: name a new file or remove it")


def stamp_of(folder: Path) -> Provenance:
    """Read the provenance that `claimed` wrote. Raises InputError if it is missing or damaged."""
    if not (folder / STAMP).exists():
        raise InputError(f"{folder} has no {STAMP}: name a folder that spectheory has written")
    try:
        return Provenance.from_dict(parse(read_text(folder / STAMP), STAMP))
    except InputError as error:
        raise InputError(f"{folder / STAMP} is damaged: remove the folder and record again") from error
