"""Strict JSON, and typed values in it: text to values, values to annotated types, and back."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from functools import cache
from types import UnionType
from typing import Any

import numpy as np

from spectheory.core.errors import InputError, RecordError
from spectheory.core.files import from_json
from spectheory.core.tree import Tree


def parse(text: str, where: str) -> Any:
    """The value in a JSON text. Raises RecordError for text that is not JSON, NaN, infinity and a repeated field."""
    try:
        return from_json(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_without_duplicates)
    except ValueError as error:
        raise RecordError(f"{where} is damaged: not JSON ({error})") from error


def to_json(value: Any) -> str:
    """`value` as indented JSON. A list of numbers or texts takes one line."""
    return _lines(value, "") + "\n"


def plain(value: Any) -> Any:
    """`value` as plain JSON values. A record becomes its `to_dict()`, a tree its parents."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Tree):
        return value.parent.tolist()
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def typed(name: str, hint: Any, value: Any) -> Any:
    """The JSON `value` converted to `hint`, the annotated type of the field `name`. Raises InputError if it is not."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, UnionType):
        if value is None and type(None) in arguments:
            return None
        options = [option for option in arguments if option is not type(None)]
        return typed(name, type(value) if type(value) in options else options[0], value)
    if origin is tuple:
        _require(name, value, list, "a list")
        return tuple(typed(name, arguments[0], item) for item in value)
    if origin is dict:
        _require(name, value, dict, "an object")
        return {typed(name, arguments[0], key): typed(name, arguments[1], item) for key, item in value.items()}
    if origin is typing.Literal:
        if value not in arguments:
            raise InputError(f"{name} must be one of {', '.join(arguments)}, got {value!r:.40}")
        return value
    if hint is Tree:
        return Tree(_array(name, value))
    if getattr(hint, "array_type", hint) is np.ndarray:
        return _array(name, value)
    if hasattr(hint, "from_dict"):
        return hint.from_dict(value, name)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = hints_of(hint)
        if not isinstance(value, dict) or set(value) != set(hints):
            raise InputError(f"{name} must be an object with the fields {list(hints)}, got {value!r:.40}")
        return hint(**{field: typed(f"{field} of {name}", hints[field], value[field]) for field in hints})
    _require(name, value, (int, float) if hint is float else hint, f"of type {hint.__name__}")
    return float(value) if hint is float else value


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """The types of the fields of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _require(name: str, value: Any, kinds: Any, described: str) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise InputError(f"{name} must be {described}, got {value!r:.40}")


def _array(name: str, value: Any) -> np.ndarray:
    """The array from a list of numbers, or from nested lists of equal length."""
    try:
        array = np.asarray(value if isinstance(value, list) else None)
    except ValueError:  # lists of different lengths
        array = np.array(None)
    if array.dtype.kind not in "iuf" or _holds_bool(value):
        raise InputError(f"{name} must be a list of numbers, or of lists of numbers of equal length, got {value!r:.40}")
    return array


def _holds_bool(value: Any) -> bool:
    return any(map(_holds_bool, value)) if isinstance(value, list) else isinstance(value, bool)


def _lines(value: Any, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(key)}: {_lines(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _lines(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits:.40} is too large")
    return number


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r:.80} occurs twice")
    return found
