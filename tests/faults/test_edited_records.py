"""A record that was edited by hand is refused, or loaded as written: no loaded record contradicts itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.core.record import Record
from spectheory.results.comparison import Compared
from spectheory.results.serving_run import Figures
from tests.core.test_records import LATENCY as PLAIN_LATENCY
from tests.core.test_records import RATES
from tests.refusals import refuses

STAMP = st.Provenance.now("test", seed=3, temperature=0.5, batch=2, settings={"rounds": 3})
LATENCY = replace(PLAIN_LATENCY, provenance=STAMP)
PLAN = st.plan(RATES, LATENCY, max_budget=8)
ONE = np.ones((1, 1))
SERVED = [
    st.ServingRun(
        name=name,
        request=np.array([0, 2]),
        arrival_seconds=np.array([0.0, 0.5]),
        first_token_seconds=np.array([0.1, 0.6]),
        completion_seconds=np.array([0.2, 0.6]),
        prompt_tokens=np.array([5, 6]),
        output_tokens=np.array([3, 1]),
        kinds=np.array([0, 0]),
        unfinished=1,
        trees=(st.Tree.chain(0), st.Tree.chain(2)),
        tier_steps=np.array([0, 1]),
        prompt_steps=2,
        drafted=2,
        accepted=1,
        seconds=0.7,
        busy_seconds=0.3,
        decode_seconds=0.1,
        batch_seconds=0.1,
        request_seconds=0.4,
        inter_token_seconds=Figures(0.05, 0.0, 0.1, 0.1),
        slo_ttft_seconds=0.2,
        slo_tpot_seconds=None,
        step_seconds=np.array([0.1, 0.2, 0.6]),
        step_batch=np.array([0, 1, 0]),
        step_tier=np.array([0, 1, 0]),
        stability_limit=9.0,
        settled_batches=np.array([0.5]),
        provenance=STAMP,
    )
    for name in ("off", "schedule")
]
SCHEDULE = st.schedule(RATES, lambda batch: LATENCY, [1, 4], context=64, max_budget=6)
TUNED = st.Tuned(
    st.schedule(RATES, lambda batch: LATENCY, [1], context=64, max_budget=1),
    ("tuned", "planned", "off"),
    goodput=np.array([[3.0, 3.5], [3.0, 3.25], [1.0, 1.5]]),
    ttft_seconds=0.25 * np.ones((3, 2)),
    tpot_seconds=0.125 * np.ones((3, 2)),
    seeds=np.array([2, 3]),
    searched=2,
    tried=9,
    load_text="poisson:4",
    slo_ttft_seconds=0.5,
    provenance=STAMP,
)
RECORDS: list[Record] = [
    RATES,
    LATENCY,
    PLAN,
    SCHEDULE,
    st.Tally(
        np.array([5, 4]), np.array([2, 2]), np.array([1, 1, 2]), 7, 2.0, 1.0, 0.5, 7, 3.0, 10, 2, 2, 1, PLAN.provenance
    ),
    st.Comparison(
        (Compared("HF plain", None, 0.0), Compared("plain", "Greedy", 0.0, 1.0, 1.0, 1.0, 9.0)),
        *(2 * ONE.repeat(2, 1), ONE.repeat(2, 1), 2 * ONE.repeat(2, 1), 3 * ONE.repeat(2, 1), ONE.repeat(2, 1)),
        STAMP,
    ),
    st.compare_policies(st.RatesDraft(RATES), {"OPT-Tree": st.OptTree(4)}, latency=LATENCY),
    st.calibrate(
        [st.engines.Run.from_throughput(141.0, context=512, source="by hand")], gpu="h100_sxm", target="llama-3.1-8b"
    ),
    SERVED[0],
    st.ServingComparison(tuple(SERVED), STAMP),
    TUNED,
]
VALUES = [None, True, False, "x", "", -1, 0, 1, 9.9, -0.5, 1e300, 2**70, 10**400]
VALUES += [[], [1], [-1, 0, 0], [[0.5]], {}, {"a": 1}]
NOT_NUMBERS = ["NaN", "Infinity", "-Infinity"]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
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


def within(saved: Any, loaded: Any) -> bool:
    """Whether everything that a file says is what the record loaded from it says."""
    if loaded is None:
        return saved in ("", False, None, {}, [])
    if isinstance(saved, dict):
        return isinstance(loaded, dict) and all(within(saved[key], loaded.get(key)) for key in saved)
    if isinstance(saved, list):
        return isinstance(loaded, list) and len(saved) == len(loaded) and all(map(within, saved, loaded))
    if isinstance(saved, bool) or isinstance(loaded, bool):
        return saved is loaded
    if isinstance(saved, int | float) and isinstance(loaded, int | float):
        return saved == loaded or math.isclose(saved, loaded, rel_tol=1e-8, abs_tol=1e-300)
    return saved == loaded


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["few", "all"])
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_one_changed_value_is_refused_or_true(record: Record, whole: bool) -> None:
    """Whatever is accepted says the same when it is saved again, all derived values included.

    What is inside a field is changed into one of `VALUES`, in turn; `make test-deep` tries all.
    """
    data = json.loads(json.dumps(record.to_dict()))
    tried = 0
    for turn, path in enumerate(leaves(data)):
        for value in VALUES if whole or len(path) == 1 else [VALUES[turn % len(VALUES)]]:
            changed = edited(data, path, value)
            tried += 1
            try:
                loaded = type(record).from_dict(changed)
            except st.RecordError:
                continue
            assert within(changed, json.loads(json.dumps(loaded.to_dict(), allow_nan=False))), (path, value)
    assert tried > 100


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["few", "all"])
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_what_is_no_number_is_refused(record: Record, number: str, whole: bool) -> None:
    """At every place of the record; where not `whole`, each place has one of the three, in turn."""
    data, turn = json.loads(json.dumps(record.to_dict())), NOT_NUMBERS.index(number)
    for path in list(leaves(data))[0 if whole else turn :: 1 if whole else 3]:
        text = json.dumps(edited(data, path, "\0")).replace('"\\u0000"', number)
        with pytest.raises(st.RecordError, match=f"not JSON .*{number}"):
            type(record).from_text(text, "record.json")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_fields_that_are_missing_or_twice_or_unknown_are_refused(record: Record) -> None:
    data = json.loads(json.dumps(record.to_dict()))
    for name in data:
        without = {key: value for key, value in data.items() if key != name}
        if name not in record.derived and name not in record._optional():
            with pytest.raises(st.RecordError):
                type(record).from_dict(without)
        twice = json.dumps(data)[:-1] + f', "{name}": {json.dumps(data[name])}}}'
        with pytest.raises(st.RecordError, match=f"the field '{name}' occurs twice"):
            type(record).from_text(twice, "record.json")
    with pytest.raises(st.RecordError, match=r"unknown fields \['sauce'\]"):
        type(record).from_dict({**data, "sauce": 1})


def test_a_plan_whose_tree_was_replaced_is_refused_and_says_how_to_plan_a_tree(tmp_path: Path) -> None:
    data = PLAN.to_dict()
    data["tree"] = st.Tree.chain(1).parent.tolist()
    (tmp_path / "plan.json").write_text(json.dumps(data))
    with pytest.raises(st.RecordError, match=r"contradicts itself: .*`spectheory plan --tree`"):
        st.Plan.load(tmp_path / "plan.json")
    own = st.evaluate(st.Tree.chain(1), RATES, LATENCY)
    assert own.block_efficiency == st.block_efficiency(st.Tree.chain(1), RATES)
    assert own.speedup == own.block_efficiency * LATENCY.plain(own.context) / LATENCY.cycle(own.tree, own.context)
    assert st.Plan.from_dict(own.to_dict()).to_dict() == own.to_dict()


def test_json_nested_too_deeply_and_numbers_too_long_are_refused() -> None:
    for text in ("[" * 100_000, '{"kind": ' * 50_000, f'{{"schema": {"9" * 6000}}}'):
        with pytest.raises(st.RecordError, match=r"plan.json is damaged: not JSON"):
            st.Plan.from_text(text, "plan.json")


def test_tallies_of_different_runs_cannot_be_added() -> None:
    tally = RECORDS[4]
    assert isinstance(tally, st.Tally)
    total = sum([tally, tally])
    assert isinstance(total, st.Tally)
    assert total.tau == tally.tau
    others = {"tree": "0" * 16, "verifier": "Block()", "temperature": 1.0, "target": "big", "draft": "small"}
    for name, value in others.items():
        other = st.Tally.from_dict({**tally.to_dict(), "provenance": {**tally.provenance.to_dict(), name: value}})
        refuses(f"tallies with different {name} cannot be added", sum, [tally, other])


def test_numbers_and_texts_that_cannot_be_written_again_are_refused() -> None:
    text = json.dumps(PLAN.to_dict())
    for bad in (
        text.replace('"context": ', '"context": 1e999, "x": '),
        text.replace('"source": "', '"source": "\\ud800'),
    ):
        with pytest.raises(st.RecordError, match=r"plan.json is damaged: not JSON"):
            st.Plan.from_text(bad, "plan.json")


def test_a_kind_that_is_no_name_is_refused(tmp_path: Path) -> None:
    for kind in ([], {}, 1, None):
        (tmp_path / "record.json").write_text(json.dumps({"kind": kind, "schema": 2}))
        with pytest.raises(st.RecordError, match=r"record.json holds no known record"):
            st.load(tmp_path / "record.json")


def test_fields_that_contradict_each_other_are_refused() -> None:
    """Each value would be valid alone."""
    tally, planned = RECORDS[4].to_dict(), PLAN.to_dict()
    for record, changes in (
        (st.Tally, {**tally, "emitted": [9, 0]}),
        (st.Tally, {**tally, "emitted": [2**62] * 4, "cycles": [0] * 4, "accepted_histogram": [0]}),
        (st.Plan, {**planned, "limits": {**planned["limits"], "max_depth": 1}}),
        (st.Plan, {**planned, "limits": {**planned["limits"], "max_fanout": 1}}),
    ):
        with pytest.raises(st.RecordError, match="damaged: "):
            record.from_dict(changes)
