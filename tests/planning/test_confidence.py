"""Errors of classes of deployments, intervals of speedups, and what a schedule says about its confidence."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.hardware import deployment_class
from spectheory.hardware.deployment_class import ClassErrors, LogErrors
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.models import model
from spectheory.planning.confidence import BatchClass, Confidence
from spectheory.planning.deployment import Deployment
from spectheory.report.answer import schedule_rows
from tests.helpers import known

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
ONE, MANY, OTHER = "dense 16-bit, one request", "dense, batch 2 to 64", "other formats or batches"
SMALL = LogErrors(0.1, 40, 8, (1, 4096))


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
        ("vllm", "llama-3.1-8b-fp8", 1, 1, False, "other formats or batches"),
        ("llama.cpp", "llama-3.1-8b-q4_k_m", 1, 1, False, "4-bit kernels"),
        ("sglang", "qwen3-30b-a3b", 1, 16, False, "MoE, one GPU"),
        ("sglang", "qwen3.5-35b-a3b", 1, 16, False, "linear attention, one GPU"),
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
    both = ClassErrors(ONE, SMALL, ("sglang", "vllm"))
    assert BatchClass(1, 1, both).in_words("vllm") == f"11% ({ONE}: 8 sources at batch 1 to 4,096)"
    assert BatchClass(1, 1, both).in_words("llama.cpp").endswith("to 4,096, none in llama.cpp)")
    unknown, foreign = (ClassErrors(name, None, ("vllm",)) for name in (OTHER, "4-bit kernels on Metal"))
    said = BatchClass(65, 70, unknown).in_words("vllm")
    assert re.fullmatch(r"\d+% \(all classes: \d+ sources at batch 1 to 256\)", said)
    assert BatchClass(1, 4, foreign).in_words("vllm") == ""


def test_a_schedule_states_each_class_once() -> None:
    found = confidence(Deployment(**PAIR).schedule(RATES, [1, 2, 64, 65, 128], max_budget=4))
    stated = [(1, 1, ONE), (2, 64, MANY), (65, 128, OTHER)]
    assert [(one.first, one.last, one.errors.name) for one in found.classes] == stated
    assert found.in_words.count("%") == 1 + 3


def test_one_interval_holds_counts_and_the_error_of_the_class() -> None:
    """Rates without counts: the interval is the error of the class. With counts it is wider, and holds both at 80%."""
    sizes, judged = [1, 64, 65, 256], [True, True, False, True]
    planned = Deployment(**PAIR).schedule(st.Acceptance.by_rank([0.75]), sizes, max_budget=4)
    counts = st.Acceptance.from_counts(np.array([[7500]]), np.array([10000]))
    counted = Deployment(**PAIR).schedule(counts, sizes, max_budget=4)
    most = [known(ClassErrors.of(name).speedup).most for name in (ONE, MANY, OTHER, OTHER)]
    for row, error in enumerate(most):
        low, high = known(planned.speedup_interval(row))
        assert (low, high) == pytest.approx(
            (planned.speedups[row] / math.exp(error), planned.speedups[row] * math.exp(error))
        )
        tau = known(counted.options[counted.choice[row]].tau_interval(counted.rates))
        part = 0.6539 * math.log(tau[1] / counted.taus[counted.choice[row]])
        assert math.log(known(counted.speedup_interval(row))[1] / counted.speedups[row]) == pytest.approx(
            math.hypot(part, error), rel=1e-3
        )
    assert [planned.judged(row) for row in range(4)] == judged
    assert schedule_rows(planned).grey == {2}
    assert [row[3].endswith(" ?") for row in schedule_rows(planned).rows] == [not each for each in judged]
    several = Deployment(**PAIR, gpus=2).schedule(RATES, [1, 8, 9], max_budget=4)
    assert [several.judged(row) for row in range(3)] == [True, True, False], "published rows end at batch 8"


@pytest.mark.parametrize(("gpu", "backend"), [("m4_max", "Metal"), ("mi300x", "ROCm"), ("v100_sxm", "Volta")])
def test_kernels_that_were_judged_with_cuda_are_not_validated_elsewhere(gpu: str, backend: str) -> None:
    """Packed weights have no interval there; 16 bits have one."""
    place: dict[str, Any] = {"gpu": gpu, "target": "llama-3.1-8b", "draft": "ngram", "engine": "llama.cpp"}
    packed = Deployment(**place | {"target": "llama-3.1-8b-q4_k_m"}).schedule(RATES, [1], max_budget=2)
    assert packed.speedup_interval() is None
    assert f"Nothing like this (4-bit kernels on {backend}) was validated: measure" in schedule_rows(packed).note
    assert Deployment(**place).schedule(RATES, [1], max_budget=2).speedup_interval() is not None
