"""`spectheory calibrate`: what it prints and writes, and the options that it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import spectheory as st
from spectheory.engines import Run as Measured
from spectheory.hardware.calibrated_costs import CalibratedCosts
from tests.command_line import HEAD, Run, refused, run, succeeded

__all__ = ["run"]
COMMAND = ("calibrate", *HEAD, "--context", 512)
GIVEN = ("--plain", "1:141", "--plain", "64:5600", "--speculative", "1:250:3.3", "--drafted", 5)
BENCH = {"n_prompt": 0, "n_gen": 128, "n_depth": 512, "avg_ns": 1000000000, "avg_ts": 128.0}
CYCLES = {
    "model_id": "llama-3.1-8b", "mean_tpot_ms": 6.0, "median_tpot_ms": 6.0, "mean_itl_ms": 15.0, "completed": 100,
    "total_input_tokens": 51200, "total_output_tokens": 12900, "output_throughput": 1200.0, "duration": 10.75,
    "mean_ttft_ms": 30.0, "max_concurrency": 8, "num_prompts": 100,
}  # fmt: skip


def test_runs_are_shown_as_measured_and_predicted_and_written(run: Run) -> None:
    result = succeeded(run(*COMMAND, *GIVEN, "--out", "costs.json"))
    shown = " ".join(result.output.split())
    assert "--plain 64:5600 5,600" in shown
    assert "batch 1, context 512, chain 5, tau 3.3" in shown
    assert "level_seconds" in shown
    found = CalibratedCosts.load("costs.json")
    assert [one.tokens_per_second for one in found.runs] == pytest.approx([141, 5600, 250])
    runs = [Measured.from_throughput(rate, batch=batch, context=512) for batch, rate in ((1, 141.0), (64, 5600.0))]
    runs.append(Measured.from_throughput(250.0, kind="speculative", context=512, tokens=6, depth=5, tau=3.3))
    names: dict[str, Any] = dict(zip(("gpu", "target", "draft"), HEAD[1::2], strict=True))
    assert st.calibrate(runs, **names).costs == found.costs


def test_a_schedule_says_that_its_costs_were_calibrated(run: Run) -> None:
    assert run(*COMMAND, *GIVEN, "--out", "costs.json").exit_code == 0
    st.Acceptance.by_rank([0.7]).save("rates.json")
    rates, small = ("--acceptance", "rates.json"), ("--max-budget", 8)
    planned = run("schedule", *rates, *HEAD, "--context", 512, "--costs", "costs.json", *small, "--json")
    said = json.loads(planned.stdout)["provenance"]["assumptions"]
    assert any("calibrated on 3 runs, largest residual" in one for one in said), planned.output
    message = "costs were calibrated for 1 x h100_sxm, llama-3.1-8b, vllm, and the deployment differs in engine"
    refused(run("schedule", *rates, *HEAD, "--costs", "costs.json", "--engine", "sglang"), message)


def test_the_file_of_a_benchmark_is_calibrated_on_and_names_its_engine(run: Run) -> None:
    Path("bench.json").write_text(json.dumps([BENCH]))
    place = ("--gpu", "rtx4090", "--target", "llama-3.1-8b-q4_k_m", "--runs", "bench.json")
    succeeded(run("calibrate", *place, "--engine", "llama.cpp", "--out", "costs.json"))
    found = CalibratedCosts.load("costs.json")
    assert (found.engine, [one.batch for one in found.runs]) == ("llama.cpp", [1])


def test_tau_that_a_file_does_not_say_can_be_given(run: Run) -> None:
    Path("serve.json").write_text(json.dumps(CYCLES))
    succeeded(run(*COMMAND, "--runs", "serve.json", "--runs-tau", 2.5, "--drafted", 3, "--out", "costs.json"))
    (cycle,) = CalibratedCosts.load("costs.json").runs
    assert (cycle.kind, cycle.tau, cycle.depth, cycle.tokens) == ("speculative", 2.5, 3, 4)


def test_a_residual_above_15_percent_is_a_warning_with_the_run(run: Run) -> None:
    result = succeeded(run(*COMMAND, "--plain", "1:141", "--plain", "16:400", "--plain", "64:1780"))
    assert "warning: --plain 16:400 contradicts the time model or another run" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing was measured: give --plain BATCH:TOKENS_PER_SECOND"),
        (("--plain", "1:142", "--draft", ""), "draft must not be empty: give a value, or leave it out"),
        (("--plain", "64"), "--plain must be BATCH:TOKENS_PER_SECOND, like 64:6000; got '64'"),
        (("--plain", "1:nan"), "--plain 1:nan: tokens_per_second must be a number"),
        (("--speculative", "1:250", "--drafted", 5), "--speculative must be BATCH:TOKENS_PER_SECOND:TAU, like 1:242:3"),
        (("--speculative", "1:250:3.3"), "--speculative and --runs-tau need the drafted shape: give --drafted K"),
        (("--speculative", "1:250:7", "--drafted", 5), "--speculative 1:250:7: tau must be a number from 1 to 6"),
        (("--speculative", "1:250:3", "--drafted", "4:9"), "--drafted must be K, like 5, or NODES:LEVELS, like 60:6"),
        (("--plain", "1:1000"), "--plain 1:1000: 1,000 tokens per second at batch 1 are more than 1 x h100_sxm allows"),
    ],
)
def test_what_cannot_be_is_refused_with_the_option(options: tuple[object, ...], message: str, run: Run) -> None:
    refused(run(*COMMAND, *options), message)
