"""Records: frozen data with a kind, a schema version and a provenance, saved as strict JSON and checked on loading."""

from __future__ import annotations

import dataclasses
import json
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self

import numpy as np

from spectheory.core.errors import InputError, RecordError
from spectheory.core.files import from_json, read_text, write_whole
from spectheory.core.tree import Tree

KINDS: dict[str, type[Record]] = {}
"""The record class of each kind."""


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """A frozen record. A subclass sets its `kind` and `schema` and checks its fields in `__post_init__`.

    The schema rises whenever a field is added, removed or changes its meaning. A field whose metadata has
    `"optional": True` is left out of the file where it is None.

    `derived` names properties that are computed from the fields. They are saved too, for readers and other programs,
    and ignored on loading: a loaded record computes them again.
    """

    kind: ClassVar[str]
    schema: ClassVar[int] = 1
    derived: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    @property
    def summary(self) -> str:
        """The contents of the record in one or two lines."""
        return self.kind

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary}>"

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON values: kind, schema version, the fields, then the derived values."""
        optional = self._optional()
        names = [
            f.name for f in dataclasses.fields(self) if getattr(self, f.name) is not None or f.name not in optional
        ]
        names += self.derived
        return {"kind": self.kind, "schema": self.schema, **{name: plain(getattr(self, name)) for name in names}}

    @classmethod
    def from_dict(cls, data: Any, where: str = "the data") -> Self:
        """The record from the output of `to_dict`. Raises RecordError, whose message names the data as `where`."""
        version = data.get("schema") if isinstance(data, dict) else None
        if not isinstance(version, int) or isinstance(version, bool) or "kind" not in data:
            raise RecordError(f"{where} is not a spectheory record: it needs the fields 'kind' and 'schema'")
        if data["kind"] != cls.kind:
            raise RecordError(f"{where} holds a record of kind {data['kind']!r:.80}, expected {cls.kind!r}")
        if version != cls.schema:
            repair = "upgrade spectheory" if version > cls.schema else "make the record again with this spectheory"
            raise RecordError(f"{where} has schema version {version}, this spectheory reads {cls.schema}: {repair}")
        hints, optional = hints_of(cls), cls._optional()
        missing = [name for name in hints if name not in data and name not in optional]
        unknown = [name for name in data if name not in (*hints, *cls.derived, "kind", "schema")]
        if missing or unknown:
            raise RecordError(f"{where} is damaged: missing fields {missing}, unknown fields {unknown}")
        try:
            return cls(**{name: typed(name, hint, data[name]) for name, hint in hints.items() if name in data})
        except (TypeError, ValueError, OverflowError) as error:
            raise RecordError(f"{where} is damaged: {error}") from error

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
            RecordError: the file is damaged, or holds a record of another kind or schema version.
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
        RecordError: the file is damaged, or holds no record of a known kind and schema version.
    """
    data = parse(read_text(path), str(path))
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise RecordError(
            f"{path} holds no known record: its kind is {kind!r:.80}, known kinds are {', '.join(sorted(KINDS))}"
        )
    return KINDS[kind].from_dict(data, str(path))


def parse(text: str, where: str) -> Any:
    """The value in a JSON text. Raises RecordError for text that is not JSON, NaN, infinity and a repeated field."""
    try:
        return from_json(text, allow_nan=False, object_pairs_hook=_without_duplicates)
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


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r:.80} occurs twice")
    return found
