"""Records: frozen data with a kind, a schema version and a provenance, saved as JSON and checked on loading."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.files import from_json, read_text, write_whole
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree


class RecordError(InputError):
    """The data are not the expected record: they are damaged, or of another kind or schema version."""


KINDS: dict[str, type[Record]] = {}
"""The record class of each kind."""


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """A frozen record. A subclass sets its `kind` and `schema` and checks its fields in `__post_init__`.

    A field whose metadata has `"optional": True` is left out of the file where it is None.

    `derived` names properties that are computed from the fields. They are saved too, for readers and other programs,
    and ignored on loading.
    """

    kind: ClassVar[str]
    schema: ClassVar[int] = 1
    derived: ClassVar[tuple[str, ...]] = ()
    repair: ClassVar[str] = "make the record again"
    """Advice in the error message for a file whose values contradict each other."""

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    @property
    def summary(self) -> str:
        """The contents of the record in one or two lines."""
        return self.kind

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary)}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON values: kind, schema version, the fields, then the derived values."""
        optional = self._optional()
        names = [
            f.name for f in dataclasses.fields(self) if getattr(self, f.name) is not None or f.name not in optional
        ]
        names += self.derived
        return {"kind": self.kind, "schema": self.schema, **{name: _plain(getattr(self, name)) for name in names}}

    @classmethod
    def from_dict(cls, data: Any, where: str = "the data") -> Self:
        """The record from the output of `to_dict`. Raises RecordError, whose message names the data as `where`."""
        check_header(data, cls.kind, cls.schema, where)
        optional = cls._optional()
        names = [f.name for f in dataclasses.fields(cls) if f.name in data or f.name not in optional]
        missing = [name for name in names if name not in data]
        unknown = [name for name in data if name not in (*names, *cls.derived, "kind", "schema")]
        if missing or unknown:
            raise RecordError(f"{where} is damaged: missing fields {missing}, unknown fields {unknown}")
        hints = _hints(cls)
        try:
            record = cls(**{name: _typed(name, hints[name], data[name]) for name in names})
        except RecordError as error:  # of a record in a field, which is named by the field alone
            if where in str(error):
                raise
            raise RecordError(f"{where}: {error}") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise RecordError(f"{where} is damaged: {error}") from error
        return record

    @classmethod
    def _optional(cls) -> set[str]:
        """The names of the fields that are left out of a file where they are None."""
        return {field.name for field in dataclasses.fields(cls) if field.metadata.get("optional")}

    def save(self, path: str | Path) -> None:
        """Write the record to `path` as JSON. An interruption leaves no half-written file."""
        write_whole(Path(path), to_json(self.to_dict()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a record of this kind.

        Raises:
            InputError: the file is missing or cannot be read.
            RecordError: the file is damaged, contradicts itself, or holds a record of another kind or schema version.
        """
        return cls.from_text(read_text(path), str(path))

    @classmethod
    def from_text(cls, text: str, where: str) -> Self:
        """The record in a JSON text. Error messages name the text as `where`. Raises RecordError as `load` does."""
        return cls.from_dict(parse(text, where), where)


def load(path: str | Path) -> Record:
    """The record in a file, of any kind.

    Raises:
        InputError: the file is missing or cannot be read.
        RecordError: the file is damaged, contradicts itself, or holds no record of a known kind and schema version.
    """
    data = parse(read_text(path), str(path))
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise RecordError(
            f"{path} holds no known record: its kind is {kind!r:.80}, known kinds are {', '.join(sorted(KINDS))}"
        )
    return KINDS[kind].from_dict(data, str(path))


def check_header(data: Any, kind: str, schema: int, where: str) -> None:
    """Check that `data` is an object of this kind and schema version. Raises RecordError if not."""
    version = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(data, dict) or "kind" not in data or not isinstance(version, int) or isinstance(version, bool):
        raise RecordError(f"{where} is not a spectheory record: it needs the fields 'kind' and 'schema'")
    if data["kind"] != kind:
        raise RecordError(f"{where} holds a record of kind {data['kind']!r:.80}, expected {kind!r}")
    if version != schema:
        repair = "upgrade spectheory" if version > schema else "make the record again with this spectheory"
        raise RecordError(f"{where} has schema version {version}, this spectheory reads version {schema}: {repair}")


def parse(text: str, where: str) -> Any:
    """The value in a JSON text. Raises RecordError for text that is not JSON, NaN, infinity and a repeated field."""
    try:
        return from_json(
            text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_without_duplicates
        )
    except ValueError as error:
        raise RecordError(f"{where} is damaged: not JSON ({error})") from error


def to_json(value: Any) -> str:
    """`value` as indented JSON. A list of numbers or texts takes one line."""
    return _lines(value, "") + "\n"


def _lines(value: Any, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(key)}: {_lines(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _lines(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _refuse_constant(name: str) -> None:
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


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of the fields of a class."""
    return typing.get_type_hints(kind)


def _plain(value: Any) -> Any:
    """`value` as plain JSON values."""
    if isinstance(value, Record | Provenance):
        return value.to_dict()
    if isinstance(value, Tree):
        return value.parent.tolist()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _typed(name: str, hint: Any, value: Any) -> Any:
    """The JSON `value` converted to `hint`, the annotated type of the field `name`."""
    if hint in (float, int, str, bool):
        return _scalar(name, hint, value)
    if typing.get_origin(hint) in (typing.Union, UnionType):
        if value is None:
            return None
        return _typed(name, next(option for option in typing.get_args(hint) if option is not type(None)), value)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise InputError(f"{name} must be a list, got {value!r:.40}")
        return tuple(_typed(name, typing.get_args(hint)[0], item) for item in value)
    if hint is Tree:
        return Tree(_array(name, value))
    if hint is Provenance:
        return Provenance.from_dict(value)
    if getattr(hint, "array_type", hint) is np.ndarray:
        return _array(name, value)
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.from_dict(value, hint.kind)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass(name, hint, value)
    if typing.get_origin(hint) is dict:
        key, item = typing.get_args(hint)
        if not isinstance(value, dict):
            raise InputError(f"{name} must be an object, got {value!r:.40}")
        return {_typed(name, key, k): _typed(name, item, v) for k, v in value.items()}
    if typing.get_origin(hint) is typing.Literal:
        if value not in typing.get_args(hint):
            raise InputError(f"{name} must be one of {', '.join(typing.get_args(hint))}, got {value!r:.40}")
        return value
    return _scalar(name, hint, value)


def _scalar(name: str, hint: type, value: Any) -> Any:
    expected = (int, float) if hint is float else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        raise InputError(f"{name} must be of type {hint.__name__}, got {value!r:.40}")
    return float(value) if hint is float else value


def _array(name: str, value: Any) -> np.ndarray:
    """The array from a list of numbers, or from nested lists of equal length."""
    array = np.asarray(value) if isinstance(value, list) else np.array(None)
    if array.dtype.kind not in "iuf" or _holds_bool(value):
        raise InputError(f"{name} must be a list of numbers, or of lists of numbers of equal length, got {value!r:.40}")
    return array


def _holds_bool(value: Any) -> bool:
    return any(map(_holds_bool, value)) if isinstance(value, list) else isinstance(value, bool)


def _dataclass(name: str, kind: type, value: Any) -> Any:
    """The dataclass `kind` from a JSON object with its fields."""
    hints = _hints(kind)
    if not isinstance(value, dict) or set(value) != set(hints):
        raise InputError(f"{name} must be an object with the fields {list(hints)}, got {value!r:.40}")
    return kind(**{field: _typed(f"{field} of {name}", hints[field], value[field]) for field in hints})
