"""What tests of the confidence in computed times have in common."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import spectheory as st
from spectheory.hardware import deployment_class
from spectheory.hardware.deployment_class import ClassErrors, LogErrors
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.planning.confidence import Confidence

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
SMALL, LARGE = LogErrors(0.05, 0.1, 40, 8), LogErrors(0.1, 0.3, 1, 1)


def given_errors(monkeypatch: pytest.MonkeyPatch, *errors: ClassErrors) -> None:
    """Replace the shipped errors of classes."""
    monkeypatch.setattr(deployment_class, "_shipped", lambda: {(one.name, one.calibrated): one for one in errors})


def confidence(plan: st.Schedule) -> Confidence:
    """The confidence of a plan, which must have one."""
    assert plan.confidence is not None
    return plan.confidence
