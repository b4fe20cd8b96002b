"""The errors of classes of deployments, and what a plan or a schedule says about its confidence."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import spectheory as st
from spectheory.hardware import deployment_class
from spectheory.hardware.deployment_class import ClassErrors, LogErrors, classes_parsed
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.models import model
from spectheory.planning.confidence import BatchClass, NextMeasurement
from spectheory.planning.deployment import Deployment
from spectheory.planning.scheduler import schedule_of
from tests.planning.confident import LARGE, MANY, ONE, PAIR, RATES, SMALL, confidence, given_errors
from tests.refusals import refuses


@pytest.mark.parametrize(
    ("engine", "target", "gpus", "batch", "plain", "expected"),
    [
        ("vllm", "llama-3.1-8b", 1, 1, False, ONE),
        ("vllm@0.11", "llama-3.1-8b", 1, 2, False, MANY),
        ("vllm", "llama-3.1-8b", 1, 64, False, MANY),
        ("vllm", "llama-3.1-8b", 1, 65, False, "other"),
        ("vllm", "llama-3.1-8b", 1, 65, True, "plain steps in serving"),
        ("vllm", "llama-3.1-8b", 1, 1, True, ONE),
        ("vllm", "llama-3.1-8b-fp8", 1, 1, False, "other"),
        ("llama.cpp", "llama-3.1-8b-q4_k_m", 1, 1, False, "4-bit kernels"),
        ("sglang", "qwen3-30b-a3b", 1, 16, False, "MoE, one GPU"),
        ("sglang", "deepseek-v3", 8, 1, False, "several GPUs"),
        ("hf@4.50", "llama-3.1-70b", 4, 1, False, "Hugging Face eager"),
        ("eagle", "llama-3.1-8b", 1, 1, False, "Hugging Face eager"),
    ],
)
def test_the_class_of_a_deployment(engine: str, target: str, gpus: int, batch: int, plain: bool, expected: str) -> None:
    assert deployment_class.deployment_class(engine, model(target), gpus, batch, plain=plain) == expected


def test_the_shipped_table_is_read_and_names_known_classes() -> None:
    table = classes_parsed(
        Path(deployment_class.__file__).parents[1].joinpath("data/validated_classes.json").read_text()
    )
    assert {ONE, MANY} <= {name for name, _ in table}
    assert ClassErrors.of(ONE) == table[ONE, False]
    assert ClassErrors.of(ONE, calibrated=True) == table[ONE, True]
    assert ClassErrors.of("none") == ClassErrors("none", None, None, ())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"classes": [1]}', '{"classes": [{"name": "x"}]}', '{"classes": [{"speedup": {}}]}']
)
def test_a_damaged_table_is_refused(text: str) -> None:
    refuses("not a table of validated classes", classes_parsed, text)


def test_impossible_errors_are_refused() -> None:
    for median, most in ((0.2, 0.1), (-0.1, 0.1), (0.1, math.inf), (math.nan, 0.1)):
        refuses("0 <= median <= most", LogErrors, median, most, 1, 1)
    for rows, sources in ((0, 0), (1, 2), (3, 0)):
        refuses("1 <= sources <= rows", LogErrors, 0.1, 0.1, rows, sources)


def test_a_plan_and_its_schedule_have_the_same_confidence() -> None:
    plan = st.plan(RATES, st.Latency.roofline(**PAIR, batch=4), max_budget=6)
    assert schedule_of(plan).confidence == plan.confidence
    planned = Deployment(**PAIR).schedule(RATES, [4], max_budget=6)
    assert confidence(planned).classes == confidence(plan).classes
    assert confidence(planned).measurement == confidence(plan).measurement


def test_errors_of_a_class_in_words() -> None:
    both = ClassErrors(ONE, SMALL, LARGE, ("sglang", "vllm"))
    assert BatchClass(1, 1, both).in_words("vllm") == f"batch 1 [{ONE}] 5%, 11% (40 rows, 8 sources)"
    assert BatchClass(1, 1, both).in_words("llama.cpp").endswith("sources), none of them in llama.cpp")
    plain = ClassErrors("several GPUs", None, LARGE, ("vllm",))
    assert BatchClass(1, 4, plain).in_words("vllm") == (
        "batch 1 to 4 [several GPUs] not validated, except plain steps: 11%, 35% (1 row, 1 source)"
    )
    none = ClassErrors("other", None, None, ())
    assert BatchClass(65, 70, none).in_words("vllm") == "batch 65 to 70 [8 bit, or more than 64 requests] not validated"


def test_a_measurement_in_words() -> None:
    said = "measuring plain decoding at batch 64 would reduce the uncertainty of the speedup at batch 8 from "
    for after, shares in ((0.09, "12% to 9%"), (0.118, "12.0% to 11.8%")):
        found = NextMeasurement("plain decoding", 64, 8, 0.12, after)
        assert found.in_words == f"{said}{shares}: see spectheory calibrate"


def test_a_plan_whose_class_was_not_validated_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    given_errors(monkeypatch)
    first, second, third = confidence(st.plan(RATES, st.Latency.roofline(**PAIR), max_budget=4)).lines
    assert first.endswith(f"batch 1 [{ONE}] not validated")
    assert second.endswith("(the error of this is unknown)")
    assert third.startswith("measuring ")
    assert third.endswith("see spectheory calibrate")


def test_without_speculation_only_the_errors_are_stated() -> None:
    plan = st.evaluate(st.Tree.chain(0), RATES, st.Latency.roofline(**PAIR))
    assert confidence(plan).break_even is confidence(plan).measurement is None
    assert len(confidence(plan).lines) == 1


def test_given_costs_have_the_errors_after_a_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    given_errors(monkeypatch, ClassErrors(ONE, LARGE, None, ("vllm",)), ClassErrors(ONE, SMALL, None, ("vllm",), True))
    plan = st.plan(RATES, st.Latency.roofline(**PAIR, costs=EngineCosts.of("vllm")), max_budget=4)
    found = confidence(plan)
    assert found.classes[0].errors.speedup == SMALL
    assert found.measurement is None
    assert "in the validation, after a calibration (median" in found.lines[0]


def test_a_schedule_states_each_class_once() -> None:
    found = confidence(Deployment(**PAIR).schedule(RATES, [1, 2, 64, 65, 128], max_budget=4))
    assert [(one.first, one.last, one.errors.name) for one in found.classes] == [
        (1, 1, ONE),
        (2, 64, MANY),
        (65, 128, "other"),
    ]
    assert len(found.lines) == 3
