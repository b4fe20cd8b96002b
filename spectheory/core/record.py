"""What every record shares: a kind, a schema version, provenance, and JSON on disk that fails loudly."""

from __future__ import annotations

import dataclasses
import json
import typing
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.core.provenance import Provenance
from spectheory.core.tree import Tree


class RecordError(InputError):
    """A file is not the record that was asked for: damaged, of a newer schema, or of another kind."""


@dataclass(frozen=True, eq=False)
class Record:
    """A frozen record. Subclasses name their `kind` and `schema` and check their own fields when made."""

    kind: ClassVar[str]
    schema: ClassVar[int] = 1

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON values, its kind and schema version first."""
        values = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind, "schema": self.schema, **values}

    @classmethod
    def from_dict(cls, data: Any, where: str = "the data") -> Self:
        """The record that `to_dict` gave. Raises RecordError, with `where` in the message."""
        if not isinstance(data, dict) or "kind" not in data or not isinstance(data.get("schema"), int):
            raise RecordError(f"{where} is not a spectheory record: it needs the fields 'kind' and 'schema'")
        if data["kind"] != cls.kind:
            raise RecordError(f"{where} holds a record of kind {data['kind']!r}, expected {cls.kind!r}")
        if data["schema"] > cls.schema:
            raise RecordError(
                f"{where} has schema version {data['schema']}, this spectheory reads {cls.kind!r} "
                f"up to version {cls.schema}: upgrade spectheory"
            )
        names = [f.name for f in dataclasses.fields(cls)]
        missing = [name for name in names if name not in data]
        unknown = [name for name in data if name not in (*names, "kind", "schema")]
        if missing or unknown:
            raise RecordError(f"{where} is damaged: missing fields {missing}, unknown fields {unknown}")
        hints = typing.get_type_hints(cls)
        try:
            return cls(**{name: _typed(name, hints[name], data[name]) for name in names})
        except RecordError:
            raise
        except (TypeError, ValueError) as error:
            raise RecordError(f"{where} is damaged: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write JSON to `path`, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        write_whole(Path(path), text)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a record of this kind. Raises RecordError for a file that is damaged, newer, or another kind."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise RecordError(f"there is no file {path}") from None
        except IsADirectoryError:
            raise RecordError(f"{path} is a folder: name the record's file") from None
        except UnicodeDecodeError as error:
            raise RecordError(f"{path} is damaged: not JSON ({error})") from error
        return cls.from_text(text, str(path))

    @classmethod
    def from_text(cls, text: str, where: str) -> Self:
        """The record that JSON describes; `where` names it in messages. Raises RecordError as `load` does."""
        try:
            return cls.from_dict(json.loads(text), where)
        except json.JSONDecodeError as error:
            raise RecordError(f"{where} is damaged: not JSON ({error})") from error


def _plain(value: Any) -> Any:
    """`value` as JSON holds it."""
    if isinstance(value, Record):
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
        return dataclasses.asdict(value)
    return value


def _typed(name: str, hint: Any, value: Any) -> Any:
    """The JSON `value` as the type that the field `name` is annotated with."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        if value is None:
            return None
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is tuple:
        return tuple(_typed(name, typing.get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.from_dict(value, hint.kind)
    if hint is Tree:
        return Tree(value)
    if hint is Provenance:
        return Provenance(**value)
    if hint is np.ndarray:
        return np.asarray(value)
    expected = (int, float) if hint is float else hint
    if not isinstance(value, expected) or isinstance(value, bool):
        raise InputError(f"{name} must be of type {hint.__name__}, got {value!r:.40}")
    return value
