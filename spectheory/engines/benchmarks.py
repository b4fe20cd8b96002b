"""Reading files of engines' benchmarks: which format a file has, and that it measures one deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path

from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.engines.benchmark_file import BenchmarkFile, BenchmarkFormat, BenchmarkRuns
from spectheory.hardware.runs import DEPLOYMENT, Conditions, Run


def read(path: Path, formats: Mapping[str, BenchmarkFormat], conditions: Conditions) -> BenchmarkRuns:
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
        usable = f"only {', '.join(form.conditions)} can" if form.conditions else "the file says all that is used"
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
