"""Records: saving and loading, and the files that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from spectheory.core.files import write_whole
from spectheory.core.record import Record
from tests.refusals import refuses

RATES = st.Acceptance.from_counts(np.array([[70, 10], [55, 12]]), np.array([100, 100]))
LATENCY = st.Latency(
    tokens=np.array([1, 4, 16]),
    contexts=np.array([64, 256]),
    target_seconds=np.array([[5e-3, 6e-3, 7e-3], [6e-3, 7e-3, 8e-3]]),
    draft_seconds=np.array([[5e-4, 5e-4, 6e-4], [6e-4, 6e-4, 7e-4]]),
    overhead_seconds=3e-4,
)
PLAN = st.plan(RATES, LATENCY, max_budget=8)
TALLY = st.Tally(emitted=np.array([5, 4]), cycles=np.array([2, 2]), accepted_histogram=np.array([1, 1, 2]))
RECORDS: list[Record] = [RATES, LATENCY, PLAN, TALLY]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_a_record_comes_back_from_disk_as_it_was(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "record.json")
    again = type(record).load(tmp_path / "record.json")
    assert again.to_dict() == record.to_dict()
    assert list(tmp_path.iterdir()) == [tmp_path / "record.json"]


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
        (lambda d: d.update(schema=1), r"has schema version 1, .* reads version 3: make the record again"),
        (lambda d: d.update(schema=True), "is not a spectheory record"),
        (lambda d: d.update(schema=99), r"has schema version 99, .* reads version 3: upgrade spectheory"),
        (lambda d: d.pop("table"), r"is damaged: missing fields \['table'\]"),
        (lambda d: d.update(tables=1), r"is damaged: .*unknown fields \['tables'\]"),
        (lambda d: d.update(table=[[0.5], [0.5, 0.2]]), "is damaged"),
        (lambda d: d.update(table=[[2.0, 0.0], [0.5, 0.0]]), "is damaged: .*must sum to at most 1"),
        (lambda d: d.update(provenance={"sauce": "x"}), "is damaged"),
        (lambda d: d.pop("kind"), "is not a spectheory record: it needs the fields 'kind' and 'schema'"),
    ],
)
def test_a_file_that_is_not_the_record_is_refused(damage, message: str, tmp_path: Path) -> None:
    data = RATES.to_dict()
    damage(data)
    path = tmp_path / "acceptance.json"
    path.write_text(json.dumps(data))
    with pytest.raises(st.RecordError, match=message):
        st.Acceptance.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b"null"])
def test_a_file_that_is_not_json_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    refuses("plan.json", st.Schedule.load, path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    refuses(r"there is no file .*absent\.json", st.Schedule.load, tmp_path / "absent.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_whole(path, "old")
    refuses(r"record.json cannot be written: 'new .ud800' cannot be encoded in UTF-8", write_whole, path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("record", "field", "value", "message"),
    [
        (PLAN, "provenance", {"source": "x", "seed": "one"}, "seed of the provenance must be int | None, got 'one'"),
        (PLAN, "context", None, "context must be of type int, got None"),
        (TALLY, "seconds", "fast", "seconds must be of type float, got 'fast'"),
        (TALLY, "emitted", [5.5, 4.5], "emitted must be a list of counts"),
        (RATES, "hits", [[9000, -5], [0, 0]], "hits must be counts >= 0 that sum to at most trials"),
        (RATES, "trials", [1.5, 2.5], "hits and trials must be whole numbers"),
    ],
)
def test_a_field_of_another_type_is_refused(
    record: Record, field: str, value: object, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**record.to_dict(), field: value}))
    with pytest.raises(st.RecordError, match=f"record.json is damaged: {message}"):
        type(record).load(path)


def test_a_plan_in_a_plan_is_checked_as_well(tmp_path: Path) -> None:
    data = PLAN.to_dict()
    data["acceptance"]["kind"] = "tally"
    (tmp_path / "plan.json").write_text(json.dumps(data))
    with pytest.raises(st.RecordError, match="expected 'acceptance'"):
        st.Schedule.load(tmp_path / "plan.json")


def test_records_and_trees_show_themselves(tmp_path: Path) -> None:
    assert repr(PLAN) == f"<Schedule: {PLAN.summary}>"
    assert len(PLAN.summary.splitlines()) == 2
    planned = st.schedule(RATES, lambda batch: LATENCY, [1, 2, 8], context=64, max_budget=4)
    assert planned._repr_html_().count("<tr>") == 1 + len(planned.ranges())
    drawn = st.Tree.k_ary(2, 2)._repr_html_()
    assert (drawn.count("<line"), drawn.count("<circle")) == (6, 7)
    assert "<svg" not in st.Tree.chain(1000)._repr_html_()
    for record in (*RECORDS, planned):
        assert len(repr(record)) < 400
        record.save(tmp_path / "record.json")
        assert st.load(tmp_path / "record.json").to_dict() == record.to_dict()
