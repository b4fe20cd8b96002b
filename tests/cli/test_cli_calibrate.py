"""`spectheory calibrate`: what it prints and writes, and the options that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import spectheory as st
from spectheory.hardware.calibrated_costs import CalibratedCosts
from tests.command_line import HEAD, Run, refused, run, succeeded

__all__ = ["run"]
COMMAND = ("calibrate", *HEAD, "--context", 512)
GIVEN = ("--plain", "1:141", "--plain", "64:5600", "--speculative", "1:250:3.3", "--chain", 5)
BATCHED = {"n_kv_max": 16384, "pp": 512, "tg": 128, "pl": 1, "t_tg": 1.0, "speed_tg": 128.0}
CYCLES = {
    "model_id": "llama-3.1-8b", "mean_tpot_ms": 6.0, "median_tpot_ms": 6.0, "mean_itl_ms": 15.0, "completed": 100,
    "total_input_tokens": 51200, "total_output_tokens": 12900, "output_throughput": 1200.0, "duration": 10.75,
    "mean_ttft_ms": 30.0, "max_concurrency": 8, "num_prompts": 100,
}  # fmt: skip


def test_runs_are_shown_as_measured_and_predicted_and_files_are_written(run: Run) -> None:
    result = succeeded(run(*COMMAND, *GIVEN, "--out", "costs.json", "--latency-out", "latency.json", "--batch", 8))
    shown = " ".join(result.output.split())
    assert "--plain 64:5600 5,600" in shown
    assert "batch 1, context 512, chain 5, tau 3.3" in shown
    assert "level_seconds" in shown
    found = CalibratedCosts.load("costs.json")
    assert [one.tokens_per_second for one in found.runs] == pytest.approx([141, 5600, 250])
    latency = st.Latency.load("latency.json")
    assert latency.batch == 8
    assert latency.target_seconds.tolist() == found.latency(8, 512).target_seconds.tolist()
    assert found.said in latency.provenance.assumptions


def test_the_record_can_be_printed_for_programs(run: Run) -> None:
    result = run(*COMMAND, *GIVEN, "--json")
    printed = json.loads(result.stdout)
    assert printed["kind"] == "calibrated_costs"
    assert CalibratedCosts.from_dict(printed).largest_residual < 0.01


def test_a_schedule_and_a_plan_say_that_their_costs_were_calibrated(run: Run) -> None:
    assert run(*COMMAND, *GIVEN, "--out", "costs.json", "--latency-out", "latency.json").exit_code == 0
    st.Acceptance.by_rank([0.7]).save("rates.json")
    rates, small = ("--acceptance", "rates.json"), ("--max-budget", 8)
    planned = run("schedule", *rates, *HEAD, "--context", 512, "--costs", "costs.json", *small, "--json")
    single = run("plan", *rates, "--latency", "latency.json", *small, "--json")
    for result in (planned, single):
        said = json.loads(result.stdout)["provenance"]["assumptions"]
        assert any("calibrated on 3 runs, largest residual" in one for one in said), result.output
    for other, message in {
        ("--engine", "sglang"): "costs were calibrated for engine vllm, the deployment has engine sglang",
        ("--gpus", 2): "costs were calibrated for gpus 1, the deployment has gpus 2",
    }.items():
        refused(run("schedule", *rates, *HEAD, "--costs", "costs.json", *other), message)


def test_the_file_of_a_benchmark_is_calibrated_on_and_names_its_engine(run: Run) -> None:
    lines = [BATCHED, BATCHED | {"pl": 8, "t_tg": 1.6, "speed_tg": 640.0}]
    Path("batched.jsonl").write_text("\n".join(map(json.dumps, lines)))
    place = ("--gpu", "rtx4090", "--target", "llama-3.1-8b", "--quant", "q4_k_m", "--runs", "batched.jsonl")
    succeeded(run("calibrate", *place, "--out", "costs.json"))
    found = CalibratedCosts.load("costs.json")
    assert found.engine == "llama.cpp"
    assert [one.batch for one in found.runs] == [1, 8]
    assert any("the line above the table" in one for one in found.provenance.assumptions)
    refused(
        run("calibrate", *place, "--engine", "vllm"),
        "batched.jsonl, line 1 (pp 512, tg 128, batch 1): engine is 'llama.cpp', but the runs are to calibrate",
    )


def test_tau_that_a_file_does_not_say_can_be_given(run: Run) -> None:
    Path("serve.json").write_text(json.dumps(CYCLES))
    succeeded(run(*COMMAND, "--runs", "serve.json", "--runs-tau", 2.5, "--chain", 3, "--out", "costs.json"))
    (cycle,) = CalibratedCosts.load("costs.json").runs
    assert (cycle.kind, cycle.tau, cycle.depth, cycle.tokens) == ("speculative", 2.5, 3, 4)


def test_a_residual_above_15_percent_is_a_warning_with_the_run(run: Run) -> None:
    result = succeeded(run(*COMMAND, "--plain", "1:141", "--plain", "16:400", "--plain", "64:1780"))
    assert "warning: --plain 16:400 contradicts the time model or another run" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing was measured: give --plain BATCH:TOKENS_PER_SECOND"),
        (("--plain", "64"), "--plain must be BATCH:TOKENS_PER_SECOND, like 64:6000; got '64'"),
        (("--plain", "1:fast"), "--plain must be BATCH:TOKENS_PER_SECOND"),
        (("--plain", "1:nan"), "--plain 1:nan: tokens_per_second must be a number"),
        (("--plain", "0.5:100"), "--plain 0.5:100: batch must be a number of at least 1"),
        (("--speculative", "1:250", "--chain", 5), "--speculative must be BATCH:TOKENS_PER_SECOND:TAU, like 1:242:3.3"),
        (("--speculative", "1:250:3.3"), "--speculative needs the drafted shape: give --chain K"),
        (("--speculative", "1:250:7", "--chain", 5), "--speculative 1:250:7: tau must be at most 6"),
        (("--speculative", "1:250:3", "--tree", "4:9"), "--tree must be NODES:LEVELS, like 60:6"),
        (("--speculative", "1:250:3", "--tree", "60:6", "--chain", 5), "--chain and --tree exclude each other"),
        (("--plain", "1:141", "--chain", 5), "--chain and --tree are for --speculative or --runs"),
        (("--plain", "1:141", "--chain", 0), "--chain must be at least 1, got 0"),
        (("--plain", "1:141", "--chain", 5, "--runs-tau", 3), "--runs-tau is for --runs"),
        (("--plain", "1:141", "--batch", 4), "--batch is the batch size of --latency-out"),
        (("--plain", "1:1000"), "--plain 1:1000: 1,000 tokens per second at batch 1 are more than 1 x h100_sxm allows"),
        (("--plain", "1:141", "--plain", "1:142"), "--plain 1:142: the run repeats the conditions of --plain 1:141"),
        (("--plain", "9000:9000"), "--plain 9000:9000: llama-3.1-8b"),
    ],
)
def test_what_cannot_be_is_refused_with_the_option(options: tuple[object, ...], message: str, run: Run) -> None:
    refused(run(*COMMAND, *options), message)
