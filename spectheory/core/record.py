"""Records: frozen data with a kind, a schema version and a provenance, saved as JSON and checked on loading."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from spectheory.core.errors import RecordError
from spectheory.core.files import read_text, write_whole
from spectheory.core.json_values import hints_of, parse, plain, to_json, typed

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
        check_header(data, cls.kind, cls.schema, where)
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
