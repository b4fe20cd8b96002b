"""Files of benchmarks: their entries, the known formats, and reading a file that measures one deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.engines.report_values import AS_WRITTEN, finite, json_objects, missing
from spectheory.hardware.runs import Conditions, Run


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
            got = f"{self.data[name]!r:.60}: {AS_WRITTEN}"
            raise InputError(f"{self.where}: {name} must be a number of at least {least:g}, got {got}")
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

    def numbers(self, name: str) -> list[float]:
        """The numbers above 0 in the list under `name`, or an empty list if there is no list."""
        values = self.data.get(name)
        items = {f"{name}[{i}]": value for i, value in enumerate(values if isinstance(values, list) else [])}
        return [Entry(self.where, items).positive(item) for item in items]


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
    for where, data in json_objects(read_text(path), str(path)):
        entry = Entry(where, data)
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
