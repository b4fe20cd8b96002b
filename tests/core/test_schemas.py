"""Record files are stable from 0.1 on: a record whose fields change gets a new schema number.

`python -m tests.core.test_schemas` writes tests/schemas.json anew; the test refuses a change without a new number.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reference.selector
import spectheory as st
from spectheory.core.record import KINDS, Record

FILE = Path(__file__).with_name("schemas.json")
OWN = {
    kind: cls for kind, cls in KINDS.items() if cls.__module__.split(".")[0] in ("spectheory", "simulate", "reference")
}


def nested(hint: Any) -> Iterator[type]:
    """The dataclasses in a type annotation."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for part in typing.get_args(hint):
        yield from nested(part)


def fields(cls: type) -> dict[str, str]:
    """The fields of a record with their annotations; those of a dataclass inside it have its name before theirs."""
    found, waiting, seen = {}, [("", cls)], {cls}
    while waiting:
        prefix, one = waiting.pop(0)
        hints = typing.get_type_hints(one)
        for field in dataclasses.fields(one):
            found[prefix + field.name] = str(field.type)
            for inner in nested(hints[field.name]):
                if inner not in seen and inner.__name__ not in ("Tree", "Provenance") and not issubclass(inner, Record):
                    seen.add(inner)
                    waiting.append((f"{inner.__name__}.", inner))
    return found


def described(cls: type[Record]) -> dict[str, Any]:
    return {"schema": cls.schema, "fields": fields(cls), "derived": list(cls.derived)}


KEPT: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}


def test_every_kind_is_kept() -> None:
    assert reference.selector.SelectorCard.kind in OWN
    assert sorted(KEPT) == sorted([*OWN, "provenance"]), "run python -m tests.core.test_schemas"


@pytest.mark.parametrize("kind", sorted(OWN))
def test_fields_change_only_with_the_schema(kind: str) -> None:
    now, kept = described(OWN[kind]), KEPT[kind]
    assert now["schema"] >= kept["schema"] >= 1
    repair = "raise its schema, then " if now["schema"] == kept["schema"] else ""
    assert now == kept, f"the fields of {kind} changed: {repair}run python -m tests.core.test_schemas"


def test_the_provenance_loses_no_field() -> None:
    """It is inside all records, and unknown and empty fields are left out, so that fields may be added."""
    assert KEPT["provenance"]["fields"].items() <= fields(st.Provenance).items()


@pytest.mark.parametrize("kind", sorted(OWN))
def test_files_of_other_schemas_are_refused_with_the_repair(kind: str) -> None:
    cls = OWN[kind]
    older, newer = {"kind": kind, "schema": cls.schema - 1}, {"kind": kind, "schema": cls.schema + 1}
    with pytest.raises(
        st.RecordError, match=rf"reads version {cls.schema}: make the record again with this spectheory"
    ):
        cls.from_dict(older, "old.json")
    with pytest.raises(st.RecordError, match=rf"reads version {cls.schema}: upgrade spectheory"):
        cls.from_dict(newer, "new.json")


if __name__ == "__main__":
    kept = {kind: described(cls) for kind, cls in sorted(OWN.items())}
    kept["provenance"] = {"fields": fields(st.Provenance)}
    FILE.write_text(json.dumps(kept, indent=1) + "\n")
