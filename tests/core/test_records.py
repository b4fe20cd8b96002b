"""Records: saving and loading, and the files that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.core.errors import RecordError
from spectheory.core.files import write_whole
from spectheory.core.record import Record
from tests.helpers import refuses

STAMP = st.Provenance.now("test", seed=3, temperature=0.5, batch=2, settings={"rounds": 3})
RATES = st.Acceptance.from_counts(np.array([[70, 10], [55, 12]]), np.array([100, 100]))
LATENCY = st.Latency(
    tokens=np.array([1, 4, 16]),
    contexts=np.array([64, 256]),
    target_seconds=np.array([[5e-3, 6e-3, 7e-3], [6e-3, 7e-3, 8e-3]]),
    draft_seconds=np.array([[5e-4, 5e-4, 6e-4], [6e-4, 6e-4, 7e-4]]),
    overhead_seconds=3e-4,
    provenance=STAMP,
)
PLAN = st.plan(RATES, LATENCY, max_budget=8)
TALLY = st.Tally(
    np.array([5, 4]), np.array([2, 2]), np.array([1, 1, 2]), 7, 2.0, 1.0, 0.5, 7, 3.0, 10, 2, 2, 1, PLAN.provenance
)
RECORDS: list[Record] = [RATES, LATENCY, PLAN, TALLY]
EVERY = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
VALUES = [None, True, "x", "", -1, 0, 9.9, 1e300, 10**400, [], [-1, 0, 0], [[0.5]], {}, {"a": 1}]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from leaves(item, (*path, key))


def edited(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The data with another value at `path`; what is beside the path is shared."""
    if not path:
        return value
    changed = data.copy()
    changed[path[0]] = edited(data[path[0]], path[1:], value)
    return changed


@EVERY
def test_a_record_comes_back_from_disk_as_it_was(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "record.json")
    for again in (type(record).load(tmp_path / "record.json"), st.load(tmp_path / "record.json")):
        assert again.to_dict() == record.to_dict()
    assert list(tmp_path.iterdir()) == [tmp_path / "record.json"]
    assert len(repr(record)) < 400


@EVERY
def test_an_edited_value_is_refused_or_loaded_into_a_record_that_can_be_saved(record: Record) -> None:
    data = json.loads(json.dumps(record.to_dict()))
    for turn, path in enumerate(leaves(data)):
        for value in VALUES if len(path) == 1 else [VALUES[turn % len(VALUES)]]:
            try:
                loaded = type(record).from_dict(edited(data, path, value))
            except RecordError:
                continue
            saved = json.loads(json.dumps(loaded.to_dict(), allow_nan=False))
            assert type(record).from_dict(saved).to_dict() == saved, (path, value)


@EVERY
def test_derived_values_are_ignored_on_loading(record: Record) -> None:
    data = record.to_dict()
    for changes in (dict.fromkeys(record.derived, "edited"), {}):
        kept = {name: value for name, value in data.items() if name not in record.derived}
        assert type(record).from_dict({**kept, **changes}).to_dict() == data


def test_counted_rates_are_computed_from_their_counts() -> None:
    edited_rates = st.Acceptance.from_dict({**RATES.to_dict(), "table": [[0.9, 0.0], [0.5, 0.1]]})
    assert edited_rates.table.tolist() == RATES.table.tolist()
    assert st.Acceptance.from_dict(RATES.smoothed().to_dict()).to_dict() == RATES.smoothed().to_dict()


def test_an_edited_tree_is_evaluated_again() -> None:
    tree = st.Tree.chain(1)
    data, own = PLAN.to_dict(), st.evaluate(tree, RATES, LATENCY)
    data["options"][PLAN.choice[0]]["tree"] = tree.parent.tolist()
    loaded = st.Schedule.from_dict(data)
    assert (loaded.tree, loaded.tau, loaded.speedup) == (tree, own.tau, own.speedup)


@EVERY
def test_fields_that_are_missing_or_twice_or_unknown_are_refused(record: Record) -> None:
    data = json.loads(json.dumps(record.to_dict()))
    for name in data:
        without = {key: value for key, value in data.items() if key != name}
        if name not in record.derived:
            with pytest.raises(RecordError):
                type(record).from_dict(without)
        twice = json.dumps(data)[:-1] + f', "{name}": {json.dumps(data[name])}}}'
        with pytest.raises(RecordError, match=f"the field '{name}' occurs twice"):
            type(record).from_text(twice, "record.json")
    with pytest.raises(RecordError, match=r"unknown fields \['sauce'\]"):
        type(record).from_dict({**data, "sauce": 1})


@EVERY
def test_files_of_other_schemas_are_refused_with_the_repair(record: Record) -> None:
    for change, repair in ((-1, "make the record again with this spectheory"), (1, "upgrade spectheory")):
        data = {**record.to_dict(), "schema": record.schema + change}
        with pytest.raises(RecordError, match=rf"reads {record.schema}: {repair}"):
            type(record).from_dict(data, "file.json")


def test_every_record_says_where_it_came_from() -> None:
    stamp = st.Provenance.now(
        "test", seed=3, packages=("numpy", "no-such-package"), dtype="float32", settings={"rows": 3}
    )
    assert stamp.versions["numpy"] == np.__version__
    assert stamp.versions["no-such-package"] == "not installed"
    assert (stamp.seed, stamp.facts) == (3, {"dtype": "float32", "rows": 3})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d.update(kind="latency"), "holds a record of kind 'latency', expected 'acceptance'"),
        (lambda d: d.update(schema=True), "is not a spectheory record"),
        (lambda d: d.update(table=[[0.5], [0.5, 0.2]]), "is damaged: table must be a list of numbers"),
        (lambda d: d.update(table=[[2.0, 0.0], [0.5, 0.0]]), r"is damaged: table\[0\] must sum to at most 1"),
        (lambda d: d.update(hits=[[9000, -5], [0, 0]]), "is damaged: hits must be counts >= 0"),
        (lambda d: d.update(provenance={"source": "x", "sauce": "y"}), "is damaged: provenance has the unknown fields"),
        (lambda d: d.update(provenance={"source": "x", "seed": -1}), "seed of the provenance must be at least 0"),
        (lambda d: d.pop("kind"), "is not a spectheory record: it needs the fields 'kind' and 'schema'"),
    ],
    ids=range(8),
)
def test_a_file_that_is_not_the_record_is_refused(damage, message: str, tmp_path: Path) -> None:
    data = RATES.to_dict()
    damage(data)
    path = tmp_path / "acceptance.json"
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=message):
        st.Acceptance.load(path)


@pytest.mark.parametrize(
    ("record", "changes", "message"),
    [
        (PLAN, {"context": None}, "context must be of type int, got None"),
        (PLAN, {"options": [{**PLAN.to_dict()["options"][0], "tree": [-1, 5]}]}, "parent must be -1 for node 0"),
        (PLAN, {"acceptance": {**RATES.to_dict(), "kind": "tally"}}, "expected 'acceptance'"),
        (TALLY, {"seconds": 5e-324, "target_seconds": 0.0, "draft_seconds": 0.0}, "seconds must be finite"),
        (TALLY, {"emitted": [5.5, 4.5]}, "emitted must be a list of counts"),
        (LATENCY, {"contexts": [-64, 256]}, "contexts must be at least 0"),
        (LATENCY, {"overhead_seconds": 1e308}, "overhead_seconds must be a number from 0 to"),
    ],
    ids=range(7),
)
def test_a_field_that_cannot_be_is_refused(record: Record, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=f"is damaged: .*{message}"):
        type(record).from_dict(json.loads(json.dumps({**record.to_dict(), **changes})))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b'{"schema": NaN}', b"[" * 100_000, b'{"kind": [], "schema": 2}']
)
def test_a_file_that_is_not_json_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    refuses("plan.json", st.Schedule.load, path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_whole(path, "old")
    refuses(r"record.json cannot be written: 'new .ud800' cannot be encoded in UTF-8", write_whole, path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_tallies_of_different_runs_cannot_be_added() -> None:
    assert (TALLY + TALLY).tau == TALLY.tau
    others = {"tree": "0" * 16, "verifier": "Block()", "temperature": 1.0, "target": "big", "draft": "small"}
    for name, value in others.items():
        other = replace(TALLY, provenance=TALLY.provenance.replace(**{name: value}))
        refuses(f"tallies with different {name} cannot be added", add, TALLY, other)
