"""The results file of a folder: one line per block, appended and synced, with a checksum, for one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from simulate.collecting.results import Collected, TaskResult, contradiction
from simulate.collecting.statistics import Statistics
from simulate.collecting.task import Figure, Task
from spectheory import Provenance
from spectheory.core.errors import InputError
from spectheory.core.files import owned
from spectheory.core.json_values import parse
from spectheory.core.record import check_header

NAME, LOCK = "blocks.jsonl", "blocks.lock"
KIND, SCHEMA = "collected_blocks", 1
HEADER = {"kind": KIND, "schema": SCHEMA}


class CollectWarning(UserWarning):
    """Something was lost and is counted again."""


@dataclass
class Contents:
    """What a results file holds.

    Attributes:
        tasks: line of each task by identity.
        blocks: statistics by identity and number of the block.
        whole: number of bytes up to the end of the last whole line.
        size: number of bytes.
    """

    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    blocks: dict[str, dict[int, Statistics]] = field(default_factory=dict)
    whole: int = 0
    size: int = 0

    def collected(self) -> Collected:
        """All tasks of the file with their blocks."""
        return Collected(
            tuple(_result(identity, line, self.blocks.get(identity, {})) for identity, line in self.tasks.items())
        )


def read_blocks(path: Path) -> Contents:
    """The contents of a results file. The last line is left out if an interruption cut it.

    Raises:
        InputError: the file cannot be read, is not a results file, or has a damaged line. The message names the line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    found = Contents(whole=raw.rfind(b"\n") + 1, size=len(raw))
    for number, line in enumerate(raw[: found.whole].split(b"\n")[:-1], start=1):
        entry = _entry(line, path, number)
        if number == 1:
            check_header(entry, KIND, SCHEMA, str(path))
        elif entry.get("line") == "task":
            found.tasks[entry["task"]] = entry
        else:
            _add(found, entry, path, number)
    return found


@dataclass
class BlockFile:
    """The results file of a folder, open for appending. `opened` makes one and holds the lock of the folder."""

    path: Path
    descriptor: int
    contents: Contents

    @classmethod
    @contextmanager
    def opened(cls, folder: str | Path) -> Iterator[Self]:
        """Open the results file of `folder`, which is created if necessary. A line cut by an interruption is removed.

        Raises:
            InputError: another process writes there, the folder cannot be written, or the file is damaged.
        """
        folder = Path(folder)
        path = folder / NAME
        with _writing(path):
            folder.mkdir(parents=True, exist_ok=True)
        repair = "name another folder and put the results together by simulate.combine"
        with owned(folder, folder / LOCK, repair):
            with _writing(path):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
                _sync_folder(folder)
            try:
                file = cls(path, descriptor, read_blocks(path))
                file._repair()
                yield file
            finally:
                os.close(descriptor)

    def _repair(self) -> None:
        """Remove a cut line at the end, and write the header of a new file."""
        if lost := self.contents.size - self.contents.whole:
            with _writing(self.path):
                os.ftruncate(self.descriptor, self.contents.whole)
            warnings.warn(
                f"the last line of {self.path} was cut by an interruption: its {lost} bytes are removed, and its block "
                "is counted again",
                CollectWarning,
                stacklevel=2,
            )
        if not self.contents.whole:
            self._append(HEADER)

    def add_task(self, task: Task) -> None:
        """Write the line of a task, once: its name, settings and figures."""
        if task.identity in self.contents.tasks:
            return
        line = {
            "line": "task",
            "task": task.identity,
            "name": task.name,
            "description": task.description,
            "figures": [vars(figure) for figure in task.figures],
            "provenance": Provenance.now("simulate.collect", packages=("numpy",), seed=task.seed).to_dict(),
        }
        self._append(line)
        self.contents.tasks[task.identity] = line

    def add_block(self, identity: str, number: int, statistics: Statistics) -> None:
        """Append a block. When this returns, the block survives a crash of the process and of the machine."""
        self._append({"line": "block", "task": identity, "block": number, **statistics.to_dict()})

    def _append(self, entry: Mapping[str, Any]) -> None:
        """Append one line and sync it. If that fails, the file is as before."""
        text = _canonical({**entry, "check": _checksum(entry)}).encode() + b"\n"
        size = os.fstat(self.descriptor).st_size
        try:
            with _writing(self.path):
                while text:
                    text = text[os.write(self.descriptor, text) :]
                os.fsync(self.descriptor)
        except BaseException:
            os.ftruncate(self.descriptor, size)
            raise


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Report an operating system's refusal as an InputError that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}; free space or name another folder, and call collect again: "
            "all blocks in the file are kept"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _canonical(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(entry).encode()).hexdigest()[:16]


def _entry(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """The object in a line, whose checksum is right."""
    where = f"line {number} of {path}"
    repair = f"delete it by `sed -i {number}d {path}` and call collect again: a lost block is counted again"
    if number == 1:
        repair = "name another folder, or restore the first line from another results file"
    try:
        entry = parse(line.decode(), where)
    except ValueError as error:
        raise InputError(f"{where} is damaged, {error}: {repair}") from error
    if not isinstance(entry, dict) or entry.pop("check", None) != _checksum(entry):
        raise InputError(f"{where} is damaged, its checksum is wrong: {repair}")
    return entry


def _add(found: Contents, entry: dict[str, Any], path: Path, number: int) -> None:
    """Add the block of a line. A repeated block must be equal."""
    try:
        identity, block = entry["task"], entry["block"]
        statistics = Statistics(entry["totals"], entry["tallies"])
    except (KeyError, AttributeError, InputError) as error:
        raise InputError(f"line {number} of {path} is not a block: {error}; name another folder") from error
    known = found.blocks.setdefault(identity, {})
    if known.setdefault(block, statistics) != statistics:
        name = found.tasks.get(identity, {}).get("name", identity[:12])
        raise InputError(f"line {number} of {path}: {contradiction(name, block)}")


def _result(identity: str, line: Mapping[str, Any], blocks: Mapping[int, Statistics]) -> TaskResult:
    figures = tuple(Figure(**figure) for figure in line["figures"])
    return TaskResult(identity, line["name"], line["description"]["settings"], figures, blocks)
