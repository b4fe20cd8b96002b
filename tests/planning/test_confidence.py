"""Errors of classes of deployments, break-evens as intervals, and what a schedule says about its confidence."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from spectheory.hardware import deployment_class
from spectheory.hardware.deployment_class import ClassErrors, LogErrors
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.models import model
from spectheory.planning.confidence import BatchClass, BreakEven, Confidence, last_positive
from spectheory.planning.deployment import Deployment
from tests.helpers import known, refuses

RATES = st.Acceptance.by_rank([0.75, 0.1])
PAIR: dict[str, Any] = {"gpu": "h100_sxm", "target": "llama-3.1-8b", "draft": "eagle3-llama-3.1-8b"}
PUBLISHED = dataclasses.replace(
    EngineCosts.of("vllm"),
    bandwidth_share=0.8,
    cache_share=1.0,
    flops_share=0.75,
    layer_seconds=9e-6,
    step_seconds=1.207e-3,
    level_seconds=0.38e-3,
    sequence_seconds=0,
    spec_step_seconds=0,
    spec_sequence_seconds=0,
)
"""The shares and overheads of the fit of SpecDecode-Bench, which has no terms by sequence."""
ONE, MANY = "dense 16-bit, one request", "dense, batch 2 to 64"
SMALL, LARGE = LogErrors(0.05, 0.1, 40, 8, (1, 4096)), LogErrors(0.1, 0.3, 1, 1, (1, 4096))


def given_errors(monkeypatch: pytest.MonkeyPatch, *errors: ClassErrors) -> None:
    """Replace the shipped errors of classes."""
    monkeypatch.setattr(deployment_class, "_shipped", lambda: {(one.name, one.calibrated): one for one in errors})


def confidence(plan: st.Schedule) -> Confidence:
    """The confidence of a plan, which must have one."""
    assert plan.confidence is not None
    return plan.confidence


@pytest.mark.parametrize(
    ("engine", "target", "gpus", "batch", "plain", "expected"),
    [
        ("vllm", "llama-3.1-8b", 1, 1, False, ONE),
        ("vllm", "llama-3.1-8b", 1, 64, False, MANY),
        ("vllm", "llama-3.1-8b", 1, 65, True, "plain steps in serving"),
        ("vllm", "llama-3.1-8b-fp8", 1, 1, False, "other"),
        ("llama.cpp", "llama-3.1-8b-q4_k_m", 1, 1, False, "4-bit kernels"),
        ("sglang", "qwen3-30b-a3b", 1, 16, False, "MoE, one GPU"),
        ("sglang", "deepseek-v3", 8, 1, False, "several GPUs"),
        ("eagle", "llama-3.1-8b", 1, 1, False, "Hugging Face eager"),
    ],
)
def test_the_class_of_a_deployment(engine: str, target: str, gpus: int, batch: int, plain: bool, expected: str) -> None:
    assert deployment_class.deployment_class(engine, model(target), gpus, batch, plain=plain) == expected


def test_a_plan_and_its_schedule_have_the_same_confidence_on_disk_too(tmp_path: Path) -> None:
    plan = st.plan(RATES, st.Latency.roofline(**PAIR, batch=4), max_budget=6)
    planned = Deployment(**PAIR).schedule(RATES, [4], max_budget=6)
    assert confidence(planned).classes == confidence(plan).classes
    planned.save(tmp_path / "schedule.json")
    assert st.Schedule.load(tmp_path / "schedule.json").confidence == planned.confidence
    assert st.plan(RATES, st.Latency.constant(), max_budget=2).confidence is None


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


def test_a_schedule_states_each_class_once() -> None:
    found = confidence(Deployment(**PAIR).schedule(RATES, [1, 2, 64, 65, 128], max_budget=4))
    assert [(one.first, one.last, one.errors.name) for one in found.classes] == [
        (1, 1, ONE),
        (2, 64, MANY),
        (65, 128, "other"),
    ]
    assert len(found.lines) == 2


@pytest.mark.parametrize("largest", [1, 2, 7, 8, 100, 4096])
def test_the_last_batch_that_pays_is_found_by_bisection(largest: int) -> None:
    for last in {0, 1, 2, 3, 5, 63, 64, 65, largest - 1, largest}:
        asked: list[int] = []

        def logarithm(batch: int, last: int = last, asked: list[int] = asked) -> float:
            asked.append(batch)
            return last + 0.5 - batch

        assert last_positive(logarithm, largest) == min(last, largest)
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
    found = known(confidence(plan).break_even)
    low, high = known(found.low), known(found.high)

    def logarithm(batch: int) -> float:
        at = st.Latency.roofline(**PAIR, batch=batch, costs=costs)
        return math.log(plan.tau * at.plain(1024) / at.cycle(tree, 1024))

    assert 1 < low < found.batch < high < found.largest
    assert logarithm(found.batch) > 0 > logarithm(found.batch + 1)
    assert logarithm(low) > SMALL.most > logarithm(low + 1)
    assert logarithm(high) > -SMALL.most > logarithm(high + 1)
    refuses("or a shorter context", st.Latency.roofline, **PAIR, batch=found.largest + 1, costs=costs)


def test_beyond_the_validated_classes_the_errors_of_the_nearest_are_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only batches 1 to 64 have errors; those of batch 64 hold above it, so the interval goes on and says so."""
    nearest = [ClassErrors(name, one, None, ("vllm",), True) for name, one in ((ONE, LARGE), (MANY, SMALL))]
    costs = dataclasses.replace(PUBLISHED, spec_step_seconds=1e-4, spec_sequence_seconds=2e-5)

    def found() -> BreakEven:
        latency = st.Latency.roofline(**PAIR, costs=costs)
        return known(confidence(st.evaluate(st.Tree.chain(4), st.Acceptance.by_rank([0.6]), latency)).break_even)

    given_errors(monkeypatch, *nearest)
    assumed = found()
    given_errors(monkeypatch, *nearest, ClassErrors("other", SMALL, None, ("vllm",), True))
    everywhere = found()
    assert assumed == dataclasses.replace(everywhere, validated=64)
    assert 64 < known(assumed.low) < assumed.batch < assumed.largest == everywhere.validated
    assert assumed.in_words.endswith("; not validated above batch 64: the errors of batch 64 are assumed there)")
    assert everywhere.in_words.endswith("with errors of this size)")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (BreakEven(38, 12, 256, 256, 256), "pays up to batch 38 (12 to above 256 with errors of this size)"),
        (BreakEven(0, 0, 7, 256, 64), "pays at no batch size (below 1 to 7 with errors of this size)"),
        (
            BreakEven(256, 256, 256, 256, 64),
            "pays up to batch 256, the largest considered (with errors of this size too; not validated above batch 64: "
            "the errors of batch 64 are assumed there)",
        ),
        (
            BreakEven(38, 12, 90, 256, 64),
            "pays up to batch 38 (12 to 90 with errors of this size; not validated above batch 64: the errors of batch "
            "64 are assumed there)",
        ),
        (BreakEven(38, None, None, 256, 0), "pays up to batch 38 (the error of this is unknown)"),
    ],
)
def test_a_break_even_in_words(found: BreakEven, said: str) -> None:
    assert found.in_words == f"speculation {said}"
