"""Files of benchmarks: their entries, the known formats, and reading a file that measures one deployment."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
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

    def inside(self, name: str) -> Entry:
        """The entry that is nested under `name`; an entry without fields if there is none."""
        data = self.data.get(name)
        return Entry(self.where, data if isinstance(data, Mapping) else {})

    def numbers(self, name: str) -> list[float]:
        """The numbers above 0 in the list under `name`, or an empty list if there is no list."""
        values = self.data.get(name)
        items = {f"{name}[{i}]": value for i, value in enumerate(values if isinstance(values, list) else [])}
        return [Entry(self.where, items).positive(item) for item in items]


def entries_of(text: str, name: str) -> list[Entry]:
    """The entries in a text that is JSON, or has one JSON object per line, with other lines around.

    Raises:
        InputError: the text is empty, damaged, or in another form.
    """
    if not text.strip():
        raise InputError(f"{name} is empty: {AS_WRITTEN}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [(f"{name}, line {i}", line.strip()) for i, line in enumerate(text.splitlines(), 1)]
        objects = [(where, line) for where, line in lines if line.startswith("{") or re.search(r'"\s*:', line)]
        if not objects or _as_json(objects[0][1]) is None:
            raise InputError(
                f"{name} must be JSON or JSON Lines, and is not JSON ({error!s:.80}): if it was JSON, it is damaged or "
                "cut off, so copy it again"
            ) from None
        if broken := [where for where, line in objects if _as_json(line) is None]:
            raise InputError(
                f"{broken[0]}: the JSON is damaged or cut off: copy the file again, or remove the line"
            ) from None
        values = [(where, _as_json(line)) for where, line in objects]
    else:
        values = [(name, value)]
        if isinstance(value, list):
            values = [(f"{name}, entry {i}", item) for i, item in enumerate(value, 1)]
    for where, value in values:
        if not isinstance(value, Mapping):
            raise InputError(f"{where} must be a JSON object, got {type(value).__name__}: {AS_WRITTEN}")
    if not values:
        raise InputError(f"{name} has no entries: {AS_WRITTEN}")
    return [Entry(where, value) for where, value in values]


def _as_json(line: str) -> Any:
    """The JSON value in `line`; None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class BenchmarkFormat:
    """One format of a benchmark's files.

    Attributes:
        fields: the fields by which an entry of the format is recognised; all must be there.
        read: reads one entry as a run, under conditions that the file does not say; a text says why it is not used.
        conditions: the names of the conditions that `read` uses. Others are refused.
        assumed: what has to be assumed.
    """

    fields: tuple[str, ...]
    read: Callable[[Entry, Conditions], Run | str]
    conditions: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def matches(self, entry: Entry) -> bool:
        """Whether the entry has all fields of the format."""
        return all(name in entry.data for name in self.fields)


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


def read_benchmark(path: Path, formats: Mapping[str, BenchmarkFormat], conditions: Conditions) -> BenchmarkRuns:
    """As `spectheory.engines.read_runs`, with the known formats by name."""
    file, entries = str(path), entries_of(read_text(path), str(path))
    name = _format(file, entries, formats)
    form = formats[name]
    given = [field.name for field in fields(conditions) if getattr(conditions, field.name) is not None]
    if unused := [condition for condition in given if condition not in form.conditions]:
        usable = f"only {', '.join(form.conditions)} can" if form.conditions else "which has all values that are used"
        raise InputError(f"{file}: {', '.join(unused)} cannot be given for a file of {name}, {usable}: leave it out")
    found = [form.read(entry, conditions) for entry in entries]
    runs = tuple(each for each in found if isinstance(each, Run))
    ignored = tuple(each for each in found if isinstance(each, str))
    if not runs:
        raise InputError(f"{file} has no run that can be used: {'; '.join(ignored[:3])}")
    _require_one_deployment(runs)
    return BenchmarkRuns(runs, ignored, form.assumed, name)


def _format(file: str, entries: Iterable[Entry], formats: Mapping[str, BenchmarkFormat]) -> str:
    """The name of the format of a file. Of several formats an entry has the one with the most fields.

    Raises:
        InputError: no entry is in a known format, or the entries are in several.
    """
    found: dict[str, str] = {}
    for entry in entries:
        if matching := [name for name, form in formats.items() if form.matches(entry)]:
            found.setdefault(max(matching, key=lambda name: len(formats[name].fields)), entry.where)
    if not found:
        known = "; ".join(f"{name} (fields {', '.join(form.fields)})" for name, form in formats.items())
        raise InputError(f"{file} is in no known format: {AS_WRITTEN}. Known are {known}")
    if len(found) > 1:
        listed = " and ".join(f"{name} ({where})" for name, where in found.items())
        raise InputError(f"{file} has entries of several formats: {listed}: put each into a file of its own")
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
