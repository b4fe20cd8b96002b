"""Records whose numbers are valid alone, but not together, or not as input of what is computed from them."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.core.record import Record
from tests.faults.test_edited_records import LATENCY, RATES, RECORDS, edited, leaves
from tests.refusals import refuses

POLICIES = RECORDS[6].to_dict()
TALLY = RECORDS[4].to_dict()
SMOOTHED = RATES.smoothed()


@pytest.mark.parametrize(
    ("kind", "data", "named"),
    [
        (st.PolicyComparison, {**POLICIES, "nodes": [[5]], "depth": [[3]]}, "nodes must be at most budget"),
        (st.PolicyComparison, {**POLICIES, "depth": [[99]]}, "depth must be at most nodes"),
        (st.PolicyComparison, {**POLICIES, "depth": [[0]]}, "expected must be at most depth"),
        (
            st.PolicyComparison,
            {**POLICIES, "cycle_seconds": [[0.0]]},
            "cycle_seconds must be finite and above 0, got 0",
        ),
        (st.PolicyComparison, {**POLICIES, "cycle_seconds": [[5e-324]]}, "cycle_seconds must be finite and above 0"),
        (st.PolicyComparison, {**POLICIES, "plain_seconds": 0.0}, "plain_seconds must be finite and above 0, got 0"),
        (st.PolicyComparison, {**POLICIES, "context": None}, ".* and context must be given together"),
        (st.PolicyComparison, {**POLICIES, "context": -1}, "context must be at least 0, got -1"),
        (st.PolicyComparison, {**POLICIES, "nodes": [[True]]}, "nodes must be a list of numbers"),
        (st.Latency, {**LATENCY.to_dict(), "contexts": [-64, 256]}, "contexts must be at least 0"),
        (st.Latency, {**LATENCY.to_dict(), "overhead_seconds": 1e308}, "overhead_seconds must be finite"),
        (st.Tally, {**TALLY, "seconds": 5e-324, "target_seconds": 0.0, "draft_seconds": 0.0}, "seconds must be finite"),
        (st.Tally, {**TALLY, "plain_seconds": 1e308}, "plain_seconds must be finite"),
        (
            st.Acceptance,
            {**RATES.to_dict(), "table": [[True, False], [False, True]]},
            "table must be a list of numbers",
        ),
    ],
    ids=range(14),
)
def test_a_contradiction_is_refused(kind: type[Record], data: dict[str, Any], named: str) -> None:
    with pytest.raises(st.RecordError, match=f"damaged: {named}"):
        kind.from_dict(json.loads(json.dumps(data)))


def test_two_policies_of_one_name_are_refused() -> None:
    twice = {name: value * 2 if isinstance(value, list) else value for name, value in POLICIES.items()}
    with pytest.raises(st.RecordError, match="names must be different texts, one for each policy"):
        st.PolicyComparison.from_dict(twice)
    assert st.PolicyComparison.from_dict({**twice, "names": ["a", "b"]}).names == ("a", "b")


@pytest.mark.parametrize("name", ["target_seconds", "draft_seconds", "target_spread_seconds"])
@pytest.mark.parametrize("value", [1e308, -1e-9, math.nan, math.inf, 5e-324])
def test_no_time_makes_a_speedup_that_is_no_number(name: str, value: float) -> None:
    times = np.full((2, 3), 1e-3)
    times[1, 2] = value
    refuses(f"{name} must be finite and", replace, LATENCY, **{name: times})


def test_what_is_called_smoothed_is_smooth() -> None:
    risen = {**SMOOTHED.to_dict(), "table": [[0.1, 0.7], [0.55, 0.12]]}
    with pytest.raises(st.RecordError, match=r"table\[0\] must be non-increasing in rank, because its provenance"):
        st.Acceptance.from_dict(risen)
    smooth = LATENCY.smoothed()
    assert st.Latency.from_dict(smooth.to_dict()).to_dict() == smooth.to_dict()
    fallen = smooth.to_dict() | {"target_seconds": [[5e-3, 4e-3, 7e-3], [6e-3, 7e-3, 8e-3]]}
    with pytest.raises(st.RecordError, match="target_seconds of a smoothed latency must not fall"):
        st.Latency.from_dict(fallen)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (None, "must be a dictionary"),
        ([("Block", (0, 0, 0))], "must be a dictionary"),
        ({3: (0, 0, 0)}, r"\[3\] must have the name of a verifier"),
        ({"": (0, 0, 0)}, "must have the name of a verifier"),
        ({"Block": "abc"}, r"\['Block'\] must be three times"),
        ({"Block": 3.0}, "must be three times"),
        ({"Block": (0, 0)}, "must be three times"),
        ({"Block": {0: 1, 1: 1, 2: 1}}, "must be three times"),
        ({"Block": np.zeros((3, 1))}, "must be three times"),
        ({"Block": [[0], [0, 1], [0]]}, "must be three times"),
        ({"Block": (0, "1", 0)}, "must be three times"),
        ({"Block": (0, 0, True)}, r"\['Block'\]\[2\] must be a number of seconds, got True"),
        ({"Block": (0, None, 0)}, r"\['Block'\]\[1\] must be a number of seconds, got None"),
        ({"Block": (0, math.nan, 0)}, r"\['Block'\]\[1\] must be finite and at least 0, got nan"),
        ({"Block": (-1e-6, 0, 0)}, r"\['Block'\]\[0\] must be finite and at least 0, got -1e-06"),
        ({"Block": (0, 0, 1e308)}, r"\['Block'\]\[2\] must be finite and at least 0"),
    ],
    ids=range(16),
)
def test_times_of_verifiers_are_three_numbers_by_name(given: Any, named: str) -> None:
    refuses(f"verifier_seconds.*{named}", replace, LATENCY, verifier_seconds=given)


def test_times_of_verifiers_may_be_any_numbers() -> None:
    given: dict[str, Any] = {"Block": [0, np.float32(0.5), 1]}
    found = replace(LATENCY, verifier_seconds=given).verifier_seconds
    assert found == {"Block": (0.0, 0.5, 1.0)}
    assert all(type(one) is float for one in found["Block"])


VALUES = [None, True, "x", -1, 0, 1, 2, 0.5, 1e-320, 1e308, 2**53, 10**400, [], {}, [1, [2]]]
FACTORS = [0, 1, 1.5, 2, 1e-9, 1e9]


def new_value(old: Any, rng: np.random.Generator) -> Any:
    """A value of any type, or for a number another number of its type."""
    if isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.7:
        return type(old)(old * FACTORS[rng.integers(len(FACTORS))])
    return VALUES[rng.integers(len(VALUES))]


def predictions(record: Record) -> list[Any]:
    """What a reader computes from a record: all derived values, and the properties that reports print."""
    found: list[Any] = [record.summary, *(getattr(record, name) for name in record.derived)]
    for name in ("tau", "speedup", "overhead_share", "speed", "outside_share", "loop_speedup", "wanted"):
        if hasattr(type(record), name):
            found.append(np.asarray(getattr(record, name), object).tolist())
    return found


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_changed_values_are_refused_or_predict_the_same_again(record: Record) -> None:
    """150 edits of one to three values, fixed seed: refused as a record, or loaded with predictions that survive."""
    rng, data = np.random.default_rng(5), json.loads(json.dumps(record.to_dict()))
    paths = list(leaves(data))
    loaded = 0
    for _ in range(150):
        changed = data
        for _ in range(rng.integers(1, 4)):
            path = paths[rng.integers(len(paths))]
            with suppress(TypeError, KeyError, IndexError, AttributeError):  # an earlier edit has removed this value
                changed = edited(changed, path, new_value(reduce(getitem, path, changed), rng))
        try:
            found = type(record).from_dict(changed)
        except st.RecordError:
            continue
        loaded += 1
        again = type(record).from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
        assert str(predictions(found)) == str(predictions(again))
    assert loaded
