"""Values in reports: finding them under any known name, checking them, and comparing them with each other."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from spectheory.core.errors import InputError

AS_WRITTEN = "pass the file as it was written"
"""The repair for a damaged value."""
EXACT = 1e-6
"""Tolerance for a quotient that the engine prints with at least six digits."""
FLOAT = 1e-9
"""Tolerance for float64, added to half a unit of the last printed digit."""


_STARTS = re.compile(r"(?:^|(?<=[}\]]))\s*(?=\{|\[\s*[\[{\]])", re.MULTILINE)
"""Where an object or a list of objects may start: a line, or the end of the one before."""


def json_objects(text: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """(place, object) of the JSON objects in `text`, one after another or in lists, with other lines around."""
    found, at, line, counted, around = [], 0, 1, 0, []
    damaged = "{}: the JSON is damaged or cut off ({:.80}): copy it again, or remove the line"
    while start := _STARTS.search(text, at):
        begin = start.end()
        around.append(text[at:begin])
        try:
            value, at = json.JSONDecoder().raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            raise InputError(damaged.format(name, str(error))) from None
        line, counted = line + text.count("\n", counted, begin), begin
        where = f"{name}, line {line}" if found or (text[:begin] + text[at:]).strip() else name
        entries = [(f"{where}, entry {i}", item) for i, item in enumerate(value, 1)] if isinstance(value, list) else ()
        found += entries or [(where, value)]
    if part := re.search(r'.*"\s*:.*', "\n".join([*around, text[at:]])):
        raise InputError(damaged.format(name, part[0].strip()))
    for where, value in found:
        if not isinstance(value, Mapping):
            raise InputError(f"{where} must be a JSON object, got {type(value).__name__}: {AS_WRITTEN}")
    if not found:
        raise InputError(f"{name} must be JSON or JSON Lines, and has no object: {AS_WRITTEN}")
    return found


def json_values(text: str) -> list[Mapping[str, Any]]:
    """The JSON objects in the text of a report."""
    return [value for _, value in json_objects(text, "the report")]


def require_whole(text: str, beginning: str, form: str) -> None:
    """Refuse a log with a counted line that starts like the form, a regular expression, and does not have it."""
    for line in text.splitlines():
        if len(re.findall(beginning, line)) > len(re.findall(form, line)):
            raise InputError(f"a line cannot be read: {line.strip()!r:.300}: give the log as the engine wrote it")


def missing(what: str, wanted: Iterable[str], found: Iterable[str]) -> InputError:
    """The error for a report that has no number under any of the `wanted` names.

    The message lists the most similar of the names `found`. If a wanted name is among these, its value is not a number.
    """
    names, wanted = sorted({str(name) for name in found}), list(wanted)
    if there := [name for name in wanted if name in names]:
        return InputError(f"{what} has {', '.join(there)}, but no number for it: pass it as the engine wrote it")
    near = dict.fromkeys(match for name in wanted for match in difflib.get_close_matches(name, names, 3, 0.5))
    nearest = f"the nearest found are {', '.join(list(near)[:6])}" if near else "nothing found has a name like these"
    return InputError(f"{what} has none of {', '.join(wanted)}; {nearest}: has the engine renamed them?")


def mapping(what: str, data: Any) -> Mapping[str, Any]:
    """`data`, after a check that it is a dictionary."""
    if not isinstance(data, Mapping):
        raise InputError(f"{what} must be a dictionary, got {type(data).__name__}: parse the JSON first")
    return data


def finite(value: Any) -> float | None:
    """`value` as a finite float; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def number(name: str, value: Any) -> float:
    """`value` as a float, after a check that it is finite."""
    found = finite(value)
    if found is None:
        raise InputError(f"{name} must be a finite number, got {value!r:.40}")
    return found


def count(name: str, value: Any) -> int:
    """`value` as an int, after a check that it is a whole number of at least 0."""
    as_float = number(name, value)
    if as_float < 0 or as_float != int(as_float):
        raise InputError(f"{name} must be a count, got {value!r}")
    return int(as_float)


def counts(name: str, values: Any) -> list[int]:
    """`values` as a list of ints, after a check that they are counts."""
    if not isinstance(values, list | tuple):
        raise InputError(f"{name} must be a list of counts, got {values!r:.60}")
    return [count(f"{name}[{i}]", value) for i, value in enumerate(values)]


def pick(data: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value in `data` under the first of `names` that has one; None if no name has one."""
    return next((data[name] for name in names if data.get(name) is not None), None)


def agree(name: str, given: float, low: float, why: str, tolerance: float, most: float | None = None) -> None:
    """Check that the figure `given` is `low`, or from `low` to `most`, as the other figures `why` say."""
    high = low if most is None else most
    if not low - tolerance <= given <= high + tolerance:
        bounds = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
        reasons = f"{why} makes it {bounds}: these contradict each other, pass figures of one report"
        raise InputError(f"{name} is {given:g}, but {reasons}")
