"""Runs: measured times of a deployment, and the conditions that a benchmark's file may not say."""

from __future__ import annotations

from typing import Any

from spectheory.engines import Conditions, Run
from tests.refusals import refuses

CYCLE: dict[str, Any] = {"kind": "speculative", "batch": 4, "context": 512.0, "tokens": 4, "depth": 3}


def test_a_throughput_becomes_seconds_of_a_step_a_forward_and_a_cycle() -> None:
    assert Run.from_throughput(200.0, batch=4, context=10) == Run("plain", 4, 10, 0.02)
    forward = Run.from_throughput(400.0, kind="forward", batch=2, context=0, tokens=8)
    assert forward == Run("forward", 2, 0, 0.04, tokens=8)
    cycle = Run.from_throughput(400.0, tau=2.5, model="m", gpus=2, source="a, line 1", **CYCLE)
    assert cycle == Run(seconds=0.025, tau=2.5, model="m", gpus=2, source="a, line 1", **CYCLE)


def test_impossible_runs_and_conditions_are_refused() -> None:
    for change, message in (
        ({"batch": True}, "batch must be a number of at least 1, got True"),
        ({"seconds": 0}, "seconds must be a number from 1e-30 to 1e.30, got 0"),
        ({"tokens": 2}, "tokens must be between 1 and 1, got 2"),
        ({"depth": 1}, "depth must be between 0 and 0, got 1"),
        (CYCLE, r"tau of a speculative run is missing, .* batch \* tau / throughput are unknown: give the mean number"),
        (CYCLE | {"tau": 2.5, "depth": 4}, "depth must be between 1 and 3, got 4"),
    ):
        given: dict[str, Any] = {"kind": "plain", "batch": 1, "context": 8, "seconds": 0.01, "source": "a.json"}
        refuses(f"a.json: {message}", Run, **(given | change))
    refuses("b: tokens_per_second must be a number from", Run.from_throughput, 0, context=1, source="b")
    refuses("^tau must be a number of at least 1, got nan", Conditions, tau=float("nan"))
    refuses("^nodes must be at least 1, got 0: for plain decoding leave it out", Conditions, nodes=0)
