"""Files of benchmarks: their entries, the known formats, and reading a file that measures one deployment."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.engines.report_values import finite, missing
from spectheory.hardware.runs import Conditions, Run

AS_WRITTEN = "pass the file as the benchmark wrote it"
"""The repair for a damaged value."""


@dataclass(frozen=True)
class Entry:
    """One entry of a benchmark's file: where it is, for error messages and for the source of a run, and its fields."""

    where: str
    data: Mapping[str, Any]

    def number(self, name: str, *, least: float = 0.0) -> float:
        """The finite number under `name`, at least `least`."""
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
    """The entries in a text that is JSON, or has one JSON object per line, with other lines around."""
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


@dataclass(frozen=True)
class BenchmarkRuns:
    """What was read from a benchmark's file: the runs, why entries are not used, and what had to be assumed."""

    runs: tuple[Run, ...]
    ignored: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def read_benchmark(path: Path, formats: Mapping[str, BenchmarkFormat], conditions: Conditions) -> BenchmarkRuns:
    """As `spectheory.engines.read_runs`, with the known formats by name."""
    given = [field.name for field in fields(conditions) if getattr(conditions, field.name) is not None]
    found: list[Run | str] = []
    assumed: list[str] = []
    for entry in entries_of(read_text(path), str(path)):
        name = next((name for name, form in formats.items() if all(key in entry.data for key in form.fields)), None)
        if name is None:
            known = "; ".join(f"{name} (fields {', '.join(form.fields)})" for name, form in formats.items())
            raise InputError(f"{entry.where} is in no known format: {AS_WRITTEN}. Known are {known}")
        form = formats[name]
        if unused := [condition for condition in given if condition not in form.conditions]:
            raise InputError(f"{entry.where}: {', '.join(unused)} cannot be given for {name}: leave it out")
        found.append(form.read(entry, conditions))
        assumed += form.assumed
    runs = tuple(each for each in found if isinstance(each, Run))
    ignored = tuple(each for each in found if isinstance(each, str))
    if not runs:
        raise InputError(f"{path} has no run that can be used: {'; '.join(ignored[:3])}")
    return BenchmarkRuns(runs, ignored, tuple(dict.fromkeys(assumed)))
