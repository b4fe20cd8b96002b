"""Values in reports: finding them under any known name, checking them, and comparing them with each other."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from spectheory.core.errors import InputError

EXACT = 1e-6
"""Tolerance for a quotient that the engine prints with at least six digits."""
FLOAT = 1e-9
"""Tolerance for float64, added to half a unit of the last printed digit."""


def json_values(text: str) -> list[Any]:
    """The JSON values in `text`, one after another; the items of lists are values of their own."""
    found, at = [], 0
    while start := re.compile(r"\S").search(text, at):
        try:
            value, at = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError) as error:
            raise InputError(f"the report must hold JSON: {error}") from None
        found += value if isinstance(value, list) else [value]
    return found


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
        return InputError(
            f"{what} has {', '.join(there)}, but no number for it: pass the report as the engine wrote it"
        )
    near = dict.fromkeys(match for name in wanted for match in difflib.get_close_matches(name, names, 3, 0.5))
    nearest = f"the nearest found are {', '.join(list(near)[:6])}" if near else "nothing found has a name like these"
    return InputError(f"{what} has none of {', '.join(wanted)}; {nearest}: has the engine renamed them?")


def mapping(what: str, data: Any) -> Mapping[str, Any]:
    """`data`, after a check that it is a dictionary."""
    if not isinstance(data, Mapping):
        raise InputError(f"{what} must be a dictionary, got {type(data).__name__}: parse the JSON first")
    return data


def mappings(what: str, data: Any) -> list[Mapping[str, Any]]:
    """The dictionaries in `data`, a list of them or a single one."""
    return [mapping(what, item) for item in (data if isinstance(data, list | tuple) else [data])]


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


def agree(name: str, given: float, expected: float, why: str, tolerance: float) -> None:
    """Check that the figure `given` is within `tolerance` of `expected`, its value by the other figures `why`."""
    within(name, given, expected, expected, why, tolerance)


def within(name: str, given: float, low: float, high: float, why: str, tolerance: float) -> None:
    """Check that the figure `given` is between `low` and `high`, its bounds by the other figures `why`."""
    if not low - tolerance <= given <= high + tolerance:
        bounds = f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
        raise InputError(
            f"{name} is {given:g}, but {why} makes it {bounds}: these contradict each other, pass figures of one report"
        )
