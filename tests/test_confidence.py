"""The errors of classes of deployments, break-evens as intervals, and the measurement that narrows a speedup most."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.hardware import deployment_class
from spectheory.hardware.deployment_class import ClassErrors, LogErrors, classes_parsed
from spectheory.hardware.engine_costs import EngineCosts, spreads
from spectheory.hardware.models import model
from spectheory.hardware.uncertainty import NOISE, deviations_left, gradients
from spectheory.planning.confidence import BatchClass, BreakEven, Confidence, NextMeasurement
from spectheory.planning.confidence_search import last_paying
from spectheory.planning.deployment import Deployment
from spectheory.planning.scheduler import schedule_of
from tests.test_roofline import PUBLISHED

RATES = st.Acceptance.by_rank([0.75, 0.1])
PAIR: dict[str, Any] = {"gpu": "h100_sxm", "target": "llama-3.1-8b", "draft": "eagle3-llama-3.1-8b"}
ONE, MANY = "dense 16-bit, one request", "dense, batch 2 to 64"
SMALL, LARGE = LogErrors(0.05, 0.1, 40, 8), LogErrors(0.1, 0.3, 1, 1)


def given_errors(monkeypatch: pytest.MonkeyPatch, *errors: ClassErrors) -> None:
    monkeypatch.setattr(deployment_class, "_shipped", lambda: {(one.name, one.calibrated): one for one in errors})


def confidence(plan: st.Plan | st.Schedule) -> Confidence:
    assert plan.confidence is not None
    return plan.confidence


# --- classes -------------------------------------------------------------------------------------------------------


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
    with pytest.raises(st.InputError, match="no table of validated classes"):
        classes_parsed(text)


def test_impossible_errors_are_refused() -> None:
    for median, most in ((0.2, 0.1), (-0.1, 0.1), (0.1, math.inf), (math.nan, 0.1)):
        with pytest.raises(st.InputError, match="0 <= median <= most"):
            LogErrors(median, most, 1, 1)
    for rows, sources in ((0, 0), (1, 2), (3, 0)):
        with pytest.raises(st.InputError, match="1 <= sources <= rows"):
            LogErrors(0.1, 0.1, rows, sources)


# --- the measurement that narrows most -----------------------------------------------------------------------------


def test_what_a_measurement_leaves_is_the_conditional_deviation_of_a_gaussian() -> None:
    """By the inverse of the posterior precision, which is another formula than the one in the library."""
    rng = np.random.default_rng(5)
    predicted, measured, wide = rng.normal(size=6), rng.normal(size=(6, 4)), rng.uniform(0.1, 1, 6)
    before, after = deviations_left(predicted, measured, wide, noise=0.07)
    assert before == pytest.approx(np.sqrt(predicted @ np.diag(wide**2) @ predicted), rel=1e-12)
    for column, left in zip(measured.T, after, strict=True):
        posterior = np.linalg.inv(np.diag(wide**-2.0) + np.outer(column, column) / 0.07**2)
        assert left == pytest.approx(np.sqrt(predicted @ posterior @ predicted), rel=1e-9)


def test_measuring_the_speedup_itself_leaves_the_noise_and_an_unrelated_one_leaves_all() -> None:
    predicted, wide = np.array([0.5, 0.0]), np.array([10.0, 1.0])
    before, after = deviations_left(predicted, np.array([[0.5, 0.0], [0.0, 1.0]]), wide, noise=0.02)
    assert before == pytest.approx(5.0)
    assert after[0] == pytest.approx(0.02, rel=1e-4)
    assert after[1] == before


def test_gradients_of_powers_are_their_exponents() -> None:
    costs, wide = EngineCosts.of("vllm"), spreads("vllm")
    names = [name for name, spread in wide.items() if spread > 0]

    def logarithms(at: EngineCosts) -> np.ndarray:
        return np.array([2 * math.log(at.bandwidth_share), -math.log(at.step_seconds * at.bandwidth_share)])

    found = gradients(logarithms, costs, wide)
    expected = np.zeros((len(names), 2))
    expected[names.index("bandwidth_share")] = 2, -1
    expected[names.index("step_seconds")] = 0, -1
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_named_measurement_is_the_best_one_by_conditioning_on_draws() -> None:
    """Costs are drawn from their spreads, made narrower by 10 so that predictions are linear. The deviation that a
    measurement leaves of the speedup is that of the residuals of a linear regression on it, over 1,500 draws; the
    standard error of such a deviation is 1.8%, so 8% is beyond 4 standard errors.
    """
    latency = st.Latency.roofline(**PAIR, batch=8)
    inputs, tree = latency.inputs, st.Tree.chain(3)
    assert inputs is not None
    rng, costs, wide = np.random.default_rng(3), inputs.place.costs, {k: v / 10 for k, v in spreads("vllm").items()}

    def logarithms(at: EngineCosts) -> np.ndarray:
        times = dataclasses.replace(latency, **inputs.with_costs(at).seconds(latency.tokens.tolist()), inputs=None)
        return np.log([times.plain(1024) / times.cycle(tree, 1024), times.plain(1024), times.cycle(tree, 1024)])

    names = [name for name, spread in wide.items() if spread > 0]
    found, widths = gradients(logarithms, costs, wide), np.array([wide[name] for name in names])
    before, after = deviations_left(found[:, 0], found[:, 1:], widths, noise=NOISE / 10)
    draws = []
    for _ in range(1500):
        factors = np.exp(widths * rng.normal(size=len(names)))
        moved = {name: getattr(costs, name) * by for name, by in zip(names, factors, strict=True)}
        shares = {name: min(1.0, value) for name, value in moved.items() if name.endswith("_share")}
        draws.append(logarithms(dataclasses.replace(costs, **moved | shares)))
    seen = np.array(draws)
    seen[:, 1:] += NOISE / 10 * rng.normal(size=(len(seen), 2))
    seen -= seen.mean(0)
    assert seen[:, 0].std() == pytest.approx(before, rel=0.08)
    for column, left in zip(seen[:, 1:].T, after, strict=True):
        residual = seen[:, 0] - column * (column @ seen[:, 0]) / (column @ column)
        assert residual.std() == pytest.approx(left, rel=0.08)


def test_the_plan_names_the_best_of_the_easy_measurements() -> None:
    found = confidence(st.plan(RATES, st.Latency.roofline(**PAIR, batch=16), max_budget=4)).measurement
    assert found is not None
    assert found.what in ("plain decoding", "speculative decoding")
    assert found.batch in (1, 16, 64)
    assert found.of_batch == 16
    assert 0 < found.after < found.before < 1


# --- break-even ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1, 2, 7, 8, 100, 4096])
def test_the_last_batch_that_pays_is_found_by_bisection(largest: int) -> None:
    for last in {0, 1, 2, 3, 5, 63, 64, 65, largest - 1, largest}:
        asked: list[int] = []

        def logarithm(batch: int, last: int = last, asked: list[int] = asked) -> float:
            asked.append(batch)
            return last + 0.5 - batch

        assert last_paying(logarithm, largest) == min(last, largest)
        assert len(asked) <= 2 * largest.bit_length() + 1
        assert all(1 <= batch <= largest for batch in asked)


def test_the_interval_of_a_break_even_is_where_the_speedup_is_1_with_the_error_of_the_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ends are found again from the speedups at the batch sizes beside them, with costs that no fit moves."""
    errors = {ONE: LARGE, MANY: SMALL, "other": SMALL}
    given_errors(monkeypatch, *(ClassErrors(name, one, None, ("vllm",), True) for name, one in errors.items()))
    costs = dataclasses.replace(PUBLISHED, spec_step_seconds=1e-3, spec_sequence_seconds=1e-4)
    tree = st.Tree.chain(8)
    plan = st.evaluate(tree, st.Acceptance.by_rank([0.6]), st.Latency.roofline(**PAIR, costs=costs))
    found = confidence(plan).break_even
    assert found is not None
    assert found.low is not None
    assert found.high is not None

    def logarithm(batch: int) -> float:
        at = st.Latency.roofline(**PAIR, batch=batch, costs=costs)
        return math.log(plan.block_efficiency * at.plain(1024) / at.cycle(tree, 1024))

    assert 1 < found.low < found.batch < found.high < found.largest
    assert logarithm(found.batch) > 0 > logarithm(found.batch + 1)
    assert logarithm(found.low) > SMALL.most > logarithm(found.low + 1)
    assert logarithm(found.high) > -SMALL.most > logarithm(found.high + 1)
    with pytest.raises(st.InputError, match="are missing"):
        st.Latency.roofline(**PAIR, batch=found.largest + 1, costs=costs)


def test_beyond_the_validated_classes_the_interval_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    given_errors(monkeypatch, ClassErrors(ONE, SMALL, None, ("vllm",)), ClassErrors(MANY, SMALL, None, ("vllm",)))
    found = confidence(st.plan(RATES, st.Latency.roofline(**PAIR), max_budget=2)).break_even
    assert found is not None
    assert found.low is not None
    assert found.low <= 64
    assert found.high == found.largest


def test_a_plan_and_its_schedule_have_the_same_confidence() -> None:
    plan = st.plan(RATES, st.Latency.roofline(**PAIR, batch=4), max_budget=6)
    assert schedule_of(plan).confidence == plan.confidence
    planned = Deployment(**PAIR).schedule(RATES, [4], max_budget=6)
    assert confidence(planned).classes == confidence(plan).classes
    assert confidence(planned).measurement == confidence(plan).measurement


# --- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (BreakEven(38, 12, 256, 256), "pays up to batch 38 (12 to above 256 with errors of this size)"),
        (BreakEven(38, 0, 40, 256), "pays up to batch 38 (below 1 to 40 with errors of this size)"),
        (BreakEven(0, 0, 7, 256), "pays at no batch size (below 1 to 7 with errors of this size)"),
        (BreakEven(0, 0, 0, 256), "pays at no batch size (with errors of this size too)"),
        (BreakEven(256, 256, 256, 256), "pays up to batch 256, the largest considered (with errors of this size too)"),
        (BreakEven(38, None, None, 256), "pays up to batch 38 (the error of this is unknown)"),
    ],
)
def test_a_break_even_in_words(found: BreakEven, said: str) -> None:
    assert found.in_words == f"speculation {said}"


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


# --- records -------------------------------------------------------------------------------------------------------


def test_measured_times_have_no_confidence_and_none_can_be_given() -> None:
    latency = st.Latency.roofline(**PAIR)
    measured = dataclasses.replace(latency, computed=False, inputs=None)
    plan = st.plan(RATES, measured, max_budget=4)
    assert plan.confidence is None
    assert st.plan(RATES, st.Latency.constant(), max_budget=2).confidence is None
    other = st.plan(RATES, latency, max_budget=4).confidence
    with pytest.raises(st.InputError, match="all times were measured"):
        dataclasses.replace(plan, confidence=other)


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


def test_inputs_that_give_other_seconds_are_refused() -> None:
    latency = st.Latency.roofline(**PAIR)
    with pytest.raises(st.InputError, match="inputs must give the seconds .* inputs=None"):
        dataclasses.replace(latency, overhead_seconds=1.0)
    with pytest.raises(st.InputError, match="inputs must be of these computed times"):
        dataclasses.replace(latency, computed=False)


VALUES = [None, True, "x", "", -1, 0, 9.9, 2**70, 10**400, [1]]


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(found for key, item in inner for found in numbers(item, (*path, key)))]


def test_edited_inputs_and_confidences_are_refused_or_loaded_as_written() -> None:
    latency = st.Latency.roofline(**PAIR, tokens=[1, 8])
    plan = st.plan(RATES, latency, max_budget=2)
    for record, name in ((latency, "inputs"), (plan, "confidence")):
        data = json.loads(json.dumps(record.to_dict()))
        for path in numbers(data[name]):
            for value in VALUES:
                changed = json.loads(json.dumps(data))
                place = changed[name]
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = value
                try:
                    loaded = type(record).from_dict(changed)
                except st.RecordError:
                    continue
                again = json.loads(json.dumps(loaded.to_dict(), allow_nan=False))
                assert again[name] == changed[name], (path, value)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: BreakEven(5, 6, 7, 8), "0 <= low <= batch"),
        (lambda: BreakEven(5, 1, None, 8), "both be given or both be None"),
        (lambda: BreakEven(9, None, None, 8), "<= largest"),
        (lambda: NextMeasurement("plain decoding", 1, 1, 0.1, 0.2), "after <= before"),
        (lambda: NextMeasurement("plain decoding", 0, 1, 0.2, 0.1), "batches of at least 1"),
        (lambda: BatchClass(2, 1, ClassErrors(ONE, None, None, ())), "first <= last"),
        (lambda: Confidence("vllm", ()), "classes must have"),
    ],
)
def test_impossible_statements_are_refused(made: Any, message: str) -> None:
    with pytest.raises(st.InputError, match=message):
        made()
