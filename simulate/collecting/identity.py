"""The identity of a task: a hash of everything that determines its results."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import math
from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from types import FunctionType
from typing import Any

import numpy as np

from simulate.load import Load
from spectheory import Provenance, Tree
from spectheory.core.errors import InputError
from spectheory.core.record import Record


def canonical(value: Any, where: str) -> Any:
    """`value` as plain JSON values that are equal for equal values, in this process and in every other.

    A record is described by its kind, its schema version and its fields. Of a provenance only its `identity` counts,
    so neither the date nor the machine makes two records different. Of a load its `identity` counts.

    Raises:
        InputError: a part of the value has no such description. The message calls the value `where`.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.generic):
        return canonical(value.item(), where)
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, Enum):
        return {"enum": f"{_place(type(value), where)}.{value.name}"}
    if isinstance(value, Tree):
        return {"tree": value.parent.tolist()}
    if isinstance(value, np.ndarray):
        return {"array": [canonical(item, where) for item in value.ravel().tolist()], "shape": list(value.shape)}
    if isinstance(value, Load):
        return {"load": value.identity}
    if isinstance(value, Provenance):
        return canonical(value.identity, where)
    if isinstance(value, list | tuple):
        return [canonical(item, where) for item in value]
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise InputError(f"{where} must have texts as keys, got {wrong[0]!r:.60}")
        return {key: canonical(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, type | FunctionType):
        return {"code": _place(value, where)}
    if dataclasses.is_dataclass(value):
        return _fields(value, where)
    raise InputError(
        f"{where} is {value!r:.60} of type {type(value).__name__}, which has no identity: give numbers, texts, lists, "
        "arrays, records, dataclasses or functions of a module"
    )


def identity_of(description: Any) -> str:
    """The SHA-256 hash of canonical JSON values, as 64 hexadecimal digits."""
    text = json.dumps(description, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _fields(value: Any, where: str) -> dict[str, Any]:
    """The class and the fields of a dataclass; kind and schema version too if it is a record."""
    fields = {f.name: canonical(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(value)}
    schema = {"schema": value.schema} if isinstance(value, Record) else {}
    return {"class": _place(type(value), where), **schema, "fields": fields}


def _place(code: Any, where: str) -> str:
    """Module and name of a function or class; for one of the main script, its source too."""
    if "<" in code.__qualname__:
        raise InputError(
            f"{where} is {code.__qualname__}, which other processes cannot find: define it at the top level of a module"
        )
    name = f"{code.__module__}:{code.__qualname__}"
    return f"{name} {_source(code, where)}" if code.__module__ == "__main__" else name


@functools.cache
def _source(code: Any, where: str) -> str:
    try:
        return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        raise InputError(f"{where} is {code.__qualname__}, whose source is not found: put it in a module") from None
