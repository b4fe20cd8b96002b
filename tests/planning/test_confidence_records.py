"""Records with a confidence: they come back from files, and damaged ones are refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import spectheory as st
from spectheory.hardware.deployment_class import ClassErrors
from spectheory.planning.confidence import BatchClass, BreakEven, Confidence, NextMeasurement
from spectheory.planning.deployment import Deployment
from tests.core.test_records import edited, leaves
from tests.planning.confident import ONE, PAIR, RATES
from tests.refusals import refuses


def test_measured_times_have_no_confidence_and_none_can_be_given() -> None:
    latency = st.Latency.roofline(**PAIR)
    measured = dataclasses.replace(latency, computed=False, inputs=None)
    plan = st.plan(RATES, measured, max_budget=4)
    assert plan.confidence is None
    assert st.plan(RATES, st.Latency.constant(), max_budget=2).confidence is None
    other = st.plan(RATES, latency, max_budget=4).confidence
    refuses("all times were measured", dataclasses.replace, plan, confidence=other)


def test_plans_and_latencies_come_back_from_disk_with_it(tmp_path: Path) -> None:
    latency = st.Latency.roofline(**PAIR, batch=3)
    latency.save(tmp_path / "latency.json")
    again = st.Latency.load(tmp_path / "latency.json")
    assert again.inputs == latency.inputs
    plan = st.plan(RATES, again, max_budget=4)
    assert plan.confidence == st.plan(RATES, latency, max_budget=4).confidence
    plan.save(tmp_path / "plan.json")
    assert st.Plan.load(tmp_path / "plan.json").confidence == plan.confidence
    planned = Deployment(**PAIR).schedule(RATES, [1, 4], max_budget=4)
    planned.save(tmp_path / "schedule.json")
    assert st.Schedule.load(tmp_path / "schedule.json").confidence == planned.confidence
    assert "confidence" in json.loads((tmp_path / "schedule.json").read_text())


def test_a_latency_without_inputs_does_not_name_them() -> None:
    assert "inputs" not in st.Latency.constant().to_dict()


VALUES = [None, True, "x", "", -1, 0, 9.9, 2**70, 10**400, [1]]


def test_edited_inputs_and_confidences_are_refused_or_loaded_as_written() -> None:
    latency = st.Latency.roofline(**PAIR, tokens=[1, 8])
    plan = st.plan(RATES, latency, max_budget=2)
    for record, name in ((latency, "inputs"), (plan, "confidence")):
        data = json.loads(json.dumps(record.to_dict()))
        for path in leaves(data[name]):
            for value in VALUES:
                changed = edited(data, (name, *path), value)
                try:
                    loaded = type(record).from_dict(changed)
                except st.RecordError:
                    continue
                again = json.loads(json.dumps(loaded.to_dict(), allow_nan=False))
                assert again[name] == changed[name], (path, value)


def test_impossible_statements_are_refused() -> None:
    refuses("0 <= low <= batch", BreakEven, 5, 6, 7, 8, 8)
    refuses("both be given or both be None", BreakEven, 5, 1, None, 8, 8)
    refuses("<= largest", BreakEven, 9, None, None, 8, 0)
    refuses("validated must be from 1 to largest=8, or 0 without low and high, got 0", BreakEven, 5, 4, 7, 8, 0)
    refuses("validated must be from 1 to largest=8", BreakEven, 5, 4, 7, 8, 9)
    refuses("validated must be .* or 0 without low and high, got 1", BreakEven, 5, None, None, 8, 1)
    refuses("after <= before", NextMeasurement, "plain decoding", 1, 1, 0.1, 0.2)
    refuses("batches of at least 1", NextMeasurement, "plain decoding", 0, 1, 0.2, 0.1)
    refuses("first <= last", BatchClass, 2, 1, ClassErrors(ONE, None, None, ()))
    refuses("classes must have", Confidence, "vllm", ())
