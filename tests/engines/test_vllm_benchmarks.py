"""Files of vLLM's benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from spectheory.engines import Run
from spectheory.engines.serving_run import ASSUMED, Served
from spectheory.engines.vllm_benchmarks import PREFILL
from spectheory.hardware.runs import Conditions
from tests.engines.examples import read, require_refused

SERVE = {
    "date": "20261122-120000",
    "endpoint_type": "vllm",
    "backend": "vllm",
    "label": None,
    "model_id": "owner/target",
    "num_prompts": 100,
    "request_rate": "inf",
    "max_concurrency": 8,
    "duration": 50.0,
    "completed": 100,
    "failed": 0,
    "total_input_tokens": 51200,
    "total_output_tokens": 12900,
    "request_throughput": 2.0,
    "output_throughput": 258.0,
    "total_token_throughput": 1282.0,
    "mean_ttft_ms": 30.0,
    "mean_tpot_ms": 15.625,
    "median_tpot_ms": 15.5,
    "mean_itl_ms": 15.6,
}
DRAFTS = {
    "mean_itl_ms": 39.0,
    "spec_decode_acceptance_rate": 50.0,
    "spec_decode_acceptance_length": 2.5,
    "spec_decode_num_drafts": 1000,
    "spec_decode_draft_tokens": 2990,
    "spec_decode_accepted_tokens": 1500,
    "spec_decode_per_position_acceptance_rates": [0.8, 0.5, 0.2],
}
STEP = {"batch": 4, "context": 575.5, "model": "owner/target", "engine": "vllm"}


def test_serve(tmp_path: Path) -> None:
    """2 requests per second of 128 steps of 15.625 ms: 4 are decoding at a time."""
    file = str(tmp_path / "bench")
    found = read(tmp_path, [SERVE])
    assert found.runs == (Run("plain", seconds=0.015625, prefill_tokens=16, source=file, **STEP),)
    assert found.assumed == (ASSUMED,)
    appended = read(tmp_path, [SERVE, SERVE | DRAFTS])
    cycle = {"kind": "speculative", "tokens": 4, "depth": 3, "tau": 2.5, "prefill_tokens": 40}
    assert appended.runs[1] == Run(seconds=0.0390625, source=f"{file}, line 2", **cycle, **STEP)


def test_serve_with_single_requests_and_other_backends(tmp_path: Path) -> None:
    detailed = SERVE | {"input_lens": [100, 300, 50], "output_lens": [11, 31, 0]}
    (run,) = read(tmp_path, [detailed]).runs
    assert run.context == pytest.approx((10 * 104.5 + 30 * 314.5) / 40, rel=1e-12)
    assert read(tmp_path, [SERVE | {"backend": "openai"}]).runs[0].engine is None
    assert read(tmp_path, [SERVE | DRAFTS | {"backend": "openai"}]).runs[0].engine == "vllm"
    assert read(tmp_path, [SERVE | {"max_concurrency": None}]).runs[0].batch == 4
    assert read(tmp_path, [SERVE | {"max_concurrency": 3.9}]).runs[0].batch == 3.9
    assert read(tmp_path, [SERVE | {"mean_tpot_ms": 1.5625, "mean_itl_ms": 1.5}]).runs[0].batch == 1
    assert read(tmp_path, [SERVE], batch=6).runs[0].batch == 6


def test_serve_with_figures_of_speculation_that_the_file_lacks(tmp_path: Path) -> None:
    older = SERVE | {"mean_itl_ms": 39.0}
    (cycle,) = read(tmp_path, [older], tau=2.5, nodes=3).runs
    assert (cycle.kind, cycle.seconds, cycle.tokens, cycle.depth) == ("speculative", 0.0390625, 4, 3)
    (tree,) = read(tmp_path, [older], tau=2.5, nodes=8, depth=3).runs
    assert (tree.tokens, tree.depth) == (9, 3)
    assert read(tmp_path, [older], speculative=False).runs[0].kind == "plain"
    (cut,) = read(tmp_path, [SERVE | DRAFTS | {"spec_decode_draft_tokens": 2500}], nodes=5).runs
    assert (cut.tokens, cut.tau) == (6, 2.5)


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        (
            {"mean_itl_ms": 39.0},
            {},
            "between two chunks is 2.5 times the time per token, .* no tau, .* give tau and nod",
        ),
        ({}, {"speculative": True}, r"tau of a speculative run is missing, .* batch \* tau / throughput"),
        ({}, {"nodes": 3}, "tau of a speculative run is missing"),
        (
            {},
            {"tau": 2.0},
            "the file does not say how many nodes are drafted per cycle, .* give nodes, and depth unless",
        ),
        (DRAFTS, {"speculative": False}, "has figures of speculation, but speculative=False was given"),
        (DRAFTS, {"tau": 2.0}, "tau is 2.5 in the file, but 2 was given: leave it out"),
        (DRAFTS, {"nodes": 4}, "nodes is 3 in the file, but 4 was given: leave it out"),
        (DRAFTS | {"spec_decode_draft_tokens": 2500}, {}, "drafts had several sizes: give nodes"),
        (
            DRAFTS | {"spec_decode_acceptance_length": 3.5},
            {},
            r"acceptance_length is 3.5, but 1 \+ accepted / drafts mak",
        ),
        (
            DRAFTS | {"spec_decode_acceptance_length": 0.5},
            {},
            "acceptance_length must be a number of at least 1, got 0.5",
        ),
        (DRAFTS | {"spec_decode_num_drafts": 0}, {}, "spec_decode_num_drafts must be a number of at least 1, got 0"),
        ({"mean_tpot_ms": 0.0}, {}, "mean_tpot_ms must be above 0, got 0: nothing was measured"),
        ({"mean_tpot_ms": float("nan")}, {}, "mean_tpot_ms must be a number of at least 0, got nan"),
        ({"output_throughput": -1}, {}, "output_throughput must be a number of at least 0, got -1"),
        (
            {"output_throughput": 300.0},
            {},
            "output_throughput is 300, but tokens / duration makes it 258: these contra",
        ),
        ({"completed": 0}, {}, "completed must be a number of at least 1, got 0"),
        ({"max_concurrency": 2}, {}, "4 requests are decoding at a time, but the concurrency is 2: these contradict"),
        (
            {"total_output_tokens": 100, "output_throughput": 2.0},
            {},
            "answers of 1 tokens have no decoding steps: repeat",
        ),
        (
            {"input_lens": [1], "output_lens": [2, 3]},
            {},
            "input_lens and output_lens must be equally long, got 1 and 2",
        ),
    ],
)
def test_damaged_results_are_refused(
    tmp_path: Path, change: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    require_refused(tmp_path, [SERVE | change], message, **given)


def test_results_of_several_models_are_refused(tmp_path: Path) -> None:
    require_refused(
        tmp_path, [SERVE, SERVE | {"model_id": "b"}], "line 2: model is 'b', but 'owner/target' in .*line 1"
    )


@given(
    rate=hs.floats(0.01, 100),
    seconds=hs.floats(1e-4, 1),
    prompt=hs.floats(0, 1e5),
    answer=hs.floats(1.01, 1e5),
    tau=hs.floats(1, 5),
)
def test_speculation_scales_the_seconds_of_a_run_and_nothing_that_was_counted(
    rate: float, seconds: float, prompt: float, answer: float, tau: float
) -> None:
    served = Served("a", seconds, rate, prompt, answer)
    plain, cycle = served.run(None, Conditions()), served.run(None, Conditions(tau=tau, nodes=4))
    assert (plain.batch, plain.context) == (cycle.batch, cycle.context)
    assert cycle.seconds == pytest.approx(tau * plain.seconds, rel=1e-12)
    assert plain.tokens_per_second == pytest.approx(cycle.tokens_per_second, rel=1e-12)
    if plain.batch > 1:
        assert plain.tokens_per_second == pytest.approx(rate * (answer - 1), rel=1e-9)
        steps = plain.tokens_per_second / plain.batch
        assert plain.prefill_tokens * steps == pytest.approx(rate * prompt, rel=1e-9), "all prompts are prefilled"


LATENCY = {"avg_latency": 1.3, "std_latency": 0.1, "latencies": [1.28, 1.28, 1.34], "percentiles": {"50": 1.28}}
SIZES = {"batch": 8, "input_tokens": 32, "output_tokens": 128}


def test_latency(tmp_path: Path) -> None:
    """1.28 s for a prefill and 127 steps: 10 ms each."""
    found = read(tmp_path, json.dumps(LATENCY, indent=4), **SIZES)
    file = str(tmp_path / "bench")
    assert found.runs == (Run("plain", 8, 95, 0.01, engine="vllm", source=file),)
    assert found.assumed == (PREFILL,)
    (cycle,) = read(tmp_path, [LATENCY | {"latencies": [1.285]}], **SIZES | {"output_tokens": 257}, tau=2, nodes=3).runs
    assert cycle.seconds == pytest.approx(1.285 / 129, rel=1e-12)
    mean = read(tmp_path, [LATENCY | {"latencies": []}], **SIZES)
    assert mean.runs[0].seconds == 1.3 / 128


ARGUMENTS = {
    "benchmark": {
        "name": "vLLM benchmark",
        "extra_info": {
            "args": {
                "model": "owner/target",
                "batch_size": 4,
                "n": 2,
                "input_len": 32,
                "output_len": 128,
                "tensor_parallel_size": 2,
                "kv_cache_dtype": "auto",
                "quantization": "fp8",
                "speculative_config": None,
            }
        },
    },
    "model": {"name": "owner/target"},
    "metric": {"name": "latency", "benchmark_values": [1.28, 1.28, 1.34], "extra_info": {}},
}


def with_arguments(**arguments: Any) -> str:
    args = ARGUMENTS["benchmark"]["extra_info"]["args"] | arguments
    return json.dumps([ARGUMENTS | {"benchmark": {"name": "x", "extra_info": {"args": args}}}])


def test_latency_with_the_arguments_in_the_file(tmp_path: Path) -> None:
    source = f"{tmp_path / 'bench'}, entry 1"
    names: dict[str, Any] = {"model": "owner/target", "gpus": 2, "engine": "vllm", "quantisation": "fp8"}
    assert read(tmp_path, with_arguments()).runs == (Run("plain", 8, 95, 0.01, source=source, **names),)
    config = {"model": "owner/draft", "num_speculative_tokens": 3, "method": "eagle3"}
    (cycle,) = read(tmp_path, with_arguments(speculative_config=config, output_len=129), tau=2).runs
    assert (cycle.tokens, cycle.depth, cycle.draft) == (4, 3, "owner/draft")
    assert cycle.seconds == pytest.approx(1.28 / 65, rel=1e-12)
    require_refused(tmp_path, with_arguments(speculative_config=config), "entry 1: tau of a speculative run is missing")
    require_refused(tmp_path, with_arguments(), "batch is 8 in the file, but 4 was given: leave it out", batch=4)
    require_refused(tmp_path, with_arguments(batch_size=0), "batch_size must be a number of at least 1, got 0")
    throughput = ARGUMENTS | {"metric": {"name": "throughput"}}
    require_refused(
        tmp_path, json.dumps([throughput]), "no run that can be used: .* has the metric throughput, not lat"
    )
    require_refused(tmp_path, json.dumps([ARGUMENTS | {"metric": {"name": "latency"}}]), "entry 1 has no latencies")


@pytest.mark.parametrize(
    ("change", "sizes", "message"),
    [
        (
            {},
            {},
            "does not say its sizes: give batch, input_tokens and output_tokens, the values of --batch-size, --in",
        ),
        (
            {},
            SIZES | {"input_tokens": 1024},
            "8192 tokens of prompts are too many for answers of 128 tokens, .* repeat",
        ),
        ({}, SIZES | {"output_tokens": 1}, "are too many for answers of 1 tokens"),
        ({"latencies": [1.0, -1.0]}, SIZES, r"latencies\[1\] must be a number of at least 0, got -1.0"),
        ({"latencies": [], "avg_latency": None}, SIZES, "avg_latency must be a number of at least 0, got None"),
    ],
)
def test_latencies_that_cannot_be_used(
    tmp_path: Path, change: dict[str, Any], sizes: dict[str, Any], message: str
) -> None:
    require_refused(tmp_path, [LATENCY | change], message, **sizes)
