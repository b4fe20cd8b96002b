"""Files of benchmarks: their entries, the known formats, and reading a file that measures one deployment."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.engines.report_values import finite, missing
from spectheory.hardware.runs import DEPLOYMENT, Conditions, Run

AS_WRITTEN = "pass the file as the benchmark wrote it"
"""The repair for a damaged value."""


@dataclass(frozen=True)
class Entry:
    """One entry of a benchmark's file.

    Attributes:
        where: the file and the entry, for error messages and for the source of a run.
        data: the fields of the entry.
    """

    where: str
    data: Mapping[str, Any]

    def number(self, name: str, *, least: float = 0.0) -> float:
        """The finite number under `name`, at least `least`.

        Raises:
            InputError: there is no such number.
        """
        if name not in self.data:
            raise missing(self.where, [name], self.data)
        value = finite(self.data[name])
        if value is None or not least <= value:
            raise InputError(
                f"{self.where}: {name} must be a number of at least {least:g}, got {self.data[name]!r:.60}: "
                f"{AS_WRITTEN}"
            )
        return value

    def positive(self, name: str) -> float:
        """The finite number above 0 under `name`: a time or a throughput."""
        value = self.number(name)
        if value == 0:
            raise InputError(f"{self.where}: {name} must be above 0, got 0: nothing was measured, repeat the benchmark")
        return value

    def count(self, name: str, *, least: int = 0) -> int:
        """The whole number under `name`, at least `least`."""
        value = self.number(name, least=least)
        if value != int(value):
            raise InputError(f"{self.where}: {name} must be a whole number, got {value!r}: {AS_WRITTEN}")
        return int(value)

    def text(self, name: str) -> str | None:
        """The text under `name`; None if there is none, or if it is empty or "auto"."""
        value = self.data.get(name)
        return value if isinstance(value, str) and value not in ("", "auto") else None

    def has(self, name: str) -> bool:
        """Whether there is a value other than null under `name`."""
        return self.data.get(name) is not None

    def inside(self, *names: str) -> Entry:
        """The entry that is nested under `names`; an entry without fields if there is none."""
        data: Any = self.data
        for name in names:
            data = data.get(name) if isinstance(data, Mapping) else None
        return Entry(self.where, data if isinstance(data, Mapping) else {})

    def numbers(self, name: str) -> list[float]:
        """The numbers in the list under `name`, or an empty list if there is no list.

        Raises:
            InputError: an item is not a finite number above 0.
        """
        items = self._items(name)
        return [items.positive(item) for item in items.data]

    def counts(self, name: str) -> list[int]:
        """The counts in the list under `name`; an empty list if there is no list."""
        items = self._items(name)
        return [items.count(item) for item in items.data]

    def _items(self, name: str) -> Entry:
        """The items of the list under `name` as an entry with the fields `name[0]`, `name[1]`..."""
        values = self.data.get(name)
        return Entry(self.where, {f"{name}[{i}]": v for i, v in enumerate(values if isinstance(values, list) else [])})


@dataclass(frozen=True)
class BenchmarkFile:
    """A benchmark's file as entries.

    Attributes:
        name: the name of the file.
        entries: JSON objects, the rows of a table, or the lines of a file with one JSON object per line.
        other: the lines of the text that are not entries.
    """

    name: str
    entries: tuple[Entry, ...]
    other: str = ""

    @classmethod
    def parse(cls, text: str, name: str) -> BenchmarkFile:
        """The entries in a text that is JSON, has one JSON object per line, or has a table in Markdown.

        Raises:
            InputError: the text is empty, damaged, or in another form.
        """
        if not text.strip():
            raise InputError(f"{name} is empty: {AS_WRITTEN}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            return cls._lines(text, name, error)
        values = value if isinstance(value, list) else [value]
        wheres = [f"{name}, entry {i}" for i in range(1, len(values) + 1)] if isinstance(value, list) else [name]
        return cls(name, _entries(zip(wheres, values, strict=True), name))

    @classmethod
    def _lines(cls, text: str, name: str, error: Exception) -> BenchmarkFile:
        """The entries of a text that is not JSON as a whole, for the reason `error`."""
        lines = [(f"{name}, line {i}", line.strip()) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
        rows = [row for row in lines if row[1].startswith("{")]
        if rows and _as_json(rows[0][1]) is not None:
            other = [row for row in lines if row not in rows]
            broken = [where for where, line in (*rows, *other) if _is_broken(line)]
            if broken:
                raise InputError(
                    f"{broken[0]}: the JSON is damaged or cut off: copy the file again, or remove the line"
                )
            found = _entries(((where, _as_json(line)) for where, line in rows), name)
            return cls(name, found, "\n".join(line for _, line in other))
        table = [row for row in lines if row[1].startswith("|")]
        if len(table) < 2 or set(table[1][1]) - set("|-: "):
            raise InputError(
                f"{name} must be JSON, JSON Lines or a table in Markdown, and is not JSON ({error!s:.80}): if it was "
                "JSON, it is damaged or cut off, so copy it again"
            )
        header = _cells(table[0][1])
        found = []
        for where, line in table[2:]:
            if len(_cells(line)) != len(header) or not line.endswith("|"):
                raise InputError(f"{where}: the row must have {len(header)} cells, got {line!r:.80}: {AS_WRITTEN}")
            found.append((where, dict(zip(header, map(_cell, _cells(line)), strict=True))))
        return cls(
            name, _entries(found, name), "\n".join(line for row in lines if row not in table for line in row[1:])
        )


def _entries(values: Iterable[tuple[str, Any]], name: str) -> tuple[Entry, ...]:
    found = []
    for where, value in values:
        if not isinstance(value, Mapping):
            raise InputError(f"{where} must be a JSON object, got {type(value).__name__}: {AS_WRITTEN}")
        found.append(Entry(where, value))
    if not found:
        raise InputError(f"{name} has no entries: {AS_WRITTEN}")
    return tuple(found)


def _as_json(line: str) -> Any:
    """The JSON value in `line`; None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_broken(line: str) -> bool:
    """Whether `line` is, or seems to be a part of, a JSON object that cannot be read. Lines of a log are not."""
    return (line.startswith("{") or re.search(r'"\s*:', line) is not None) and _as_json(line) is None


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Ignored:
    """An entry that is not used.

    Attributes:
        reason: why, with the file and the entry.
    """

    reason: str


@dataclass(frozen=True)
class BenchmarkRuns:
    """What was read from a benchmark's file.

    Attributes:
        runs: the runs, all of one deployment.
        ignored: the entries that are not used, and why.
        assumed: what had to be assumed.
        format: the name of the file's format.
    """

    runs: tuple[Run, ...]
    ignored: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    format: str = ""

    @classmethod
    def collect(
        cls, file: BenchmarkFile, read: Callable[[Entry], Iterable[Run | Ignored]], *assumed: str
    ) -> BenchmarkRuns:
        """The runs that `read` makes of the entries of a file.

        Raises:
            InputError: no entry can be used. The message says why.
        """
        found = [one for entry in file.entries for one in read(entry)]
        runs = tuple(one for one in found if isinstance(one, Run))
        ignored = tuple(dict.fromkeys(one.reason for one in found if isinstance(one, Ignored)))
        if not runs:
            raise InputError(f"{file.name} has no run that can be used: {'; '.join(ignored[:3])}")
        return cls(runs, ignored, tuple(dict.fromkeys(assumed)))


Reader = Callable[[BenchmarkFile, Conditions], BenchmarkRuns]
"""Reads the entries of a file under conditions that the file does not say."""


def each(read: Callable[[Entry, Conditions], Run | Ignored], *assumed: str) -> Reader:
    """A reader of files whose entries are read one by one."""
    return lambda file, conditions: BenchmarkRuns.collect(file, lambda entry: [read(entry, conditions)], *assumed)


@dataclass(frozen=True)
class BenchmarkFormat:
    """One format of a benchmark's files.

    Attributes:
        fields: the fields by which an entry of the format is recognised; all must be there.
        read: reads the entries.
        conditions: the names of the conditions that `read` uses. Others are refused.
    """

    fields: tuple[str, ...]
    read: Reader
    conditions: tuple[str, ...] = ()

    def matches(self, entry: Entry) -> bool:
        """Whether the entry has all fields of the format."""
        return all(name in entry.data for name in self.fields)


def read_benchmark(path: Path, formats: Mapping[str, BenchmarkFormat], conditions: Conditions) -> BenchmarkRuns:
    """As `spectheory.engines.read_runs`, with the known formats by name."""
    file = BenchmarkFile.parse(read_text(path), str(path))
    name = _format(file, formats)
    _require_used(file.name, name, formats[name], conditions)
    found = formats[name].read(file, conditions)
    _require_one_deployment(found.runs)
    return replace(found, format=name)


def _require_used(file: str, name: str, form: BenchmarkFormat, conditions: Conditions) -> None:
    """Check that the format uses all conditions that are given."""
    given = [field.name for field in fields(conditions) if getattr(conditions, field.name) is not None]
    unused = [condition for condition in given if condition not in form.conditions]
    if unused:
        usable = f"only {', '.join(form.conditions)} can" if form.conditions else "which has all values that are used"
        raise InputError(f"{file}: {', '.join(unused)} cannot be given for a file of {name}, {usable}: leave it out")


def _format(file: BenchmarkFile, formats: Mapping[str, BenchmarkFormat]) -> str:
    """The name of the format of a file. Of several formats an entry has the one with the most fields.

    Raises:
        InputError: no entry is in a known format, or the entries are in several.
    """
    found: dict[str, str] = {}
    for entry in file.entries:
        matching = [name for name, form in formats.items() if form.matches(entry)]
        if matching:
            found.setdefault(max(matching, key=lambda name: len(formats[name].fields)), entry.where)
    if not found:
        known = "; ".join(f"{name} (fields {', '.join(form.fields)})" for name, form in formats.items())
        have = ", ".join(list(map(str, file.entries[0].data))[:12])
        raise InputError(
            f"{file.name} is in no known format: its first entry has the fields {have or 'none'}. Pass the file as the "
            f"benchmark wrote it. Known are {known}"
        )
    if len(found) > 1:
        listed = " and ".join(f"{name} ({where})" for name, where in found.items())
        raise InputError(f"{file.name} has entries of several formats: {listed}: put each into a file of its own")
    return next(iter(found))


def _require_one_deployment(runs: Iterable[Run]) -> None:
    """Check that no two runs name different models, GPUs, engines or formats. A run that names none fits all."""
    first: dict[str, Run] = {}
    for run in runs:
        for name in DEPLOYMENT:
            value = getattr(run, name)
            before = first.setdefault(name, run) if value is not None else run
            if getattr(before, name) != value:
                raise InputError(
                    f"{run.where}{name} is {value!r:.80}, but {getattr(before, name)!r:.80} in {before.source}: a file "
                    "must measure one deployment, put the entries of each deployment into a file of its own"
                )
