"""Files of SGLang's benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectheory.engines import Run
from spectheory.engines.serving_run import ASSUMED
from spectheory.engines.sglang_benchmarks import PERCENTILE, SINCE_START
from tests.engines.examples import read, require_refused
from tests.engines.test_sglang import BENCH

ONE_BATCH = {
    "run_name": "default",
    "batch_size": 4,
    "input_len": 256,
    "output_len": 33,
    "prefill_latency": 0.1,
    "prefill_throughput": 10240.0,
    "median_decode_latency": 0.02,
    "median_decode_throughput": 200.0,
    "total_latency": 0.75,
    "overall_throughput": 1541.3,
}


def test_one_batch(tmp_path: Path) -> None:
    """32 steps with 256 to 287 tokens in the cache."""
    prefill = {name: value for name, value in ONE_BATCH.items() if "decode" not in name} | {"output_len": 1}
    found = read(tmp_path, [ONE_BATCH, prefill])
    file = str(tmp_path / "bench")
    source = f"{file}, line 1 (batch 4, input 256, output 33)"
    assert found.runs == (Run("plain", 4, 271.5, 0.02, engine="sglang", source=source),)
    assert found.ignored == (f"{file}, line 2 (batch 4, input 256, output 1) has no decoding steps",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"median_decode_latency": 0}, "median_decode_latency must be above 0, got 0"),
        ({"median_decode_latency": None}, "median_decode_latency must be a number of at least 0, got None"),
        (
            {"median_decode_throughput": 300.0},
            "is 300, but batch_size / median_decode_latency makes it 200: these contr",
        ),
        ({"batch_size": 0}, "batch_size must be a number of at least 1, got 0"),
        ({"output_len": 2.5}, "output_len must be a whole number, got 2.5"),
    ],
)
def test_damaged_results_of_one_batch_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    require_refused(tmp_path, [ONE_BATCH, ONE_BATCH | change], f"line 2.*{message}")


def test_bench_speculative(tmp_path: Path) -> None:
    """Answers of 512 tokens: 511 steps after prompts of 50 tokens, or as given."""
    file = str(tmp_path / "bench")
    found = read(tmp_path, BENCH)
    assert found.runs == (
        Run("plain", 1, 305, 0.01, engine="sglang", source=f"{file}, line 1"),
        Run("speculative", 1, 305, 0.0125, tokens=8, depth=3, tau=2.5, engine="sglang", source=f"{file}, line 2"),
        Run("speculative", 8, 305, 0.02, tokens=4, depth=3, tau=2.2, engine="sglang", source=f"{file}, line 4"),
    )
    assert found.assumed == (PERCENTILE, "prompts have 50 tokens, because the file does not say it")
    given = read(tmp_path, BENCH, input_tokens=1000)
    assert [run.context for run in given.runs] == [1255] * 3
    assert given.assumed == (PERCENTILE,)
    full = BENCH.replace(
        '"acc_length": 2.2, "step_time": 0.02, "speed": 110.0',
        '"acc_length": 4.007, "step_time": 0.02, "speed": 200.35',
    )
    assert read(tmp_path, full).runs[2].tau == 4, "the token of the prefill is cut off"


@pytest.mark.parametrize(
    ("old", "new", "given", "message"),
    [
        ("200.0", "300.0", {}, "line 2: speed is 300, but acc_length / step_time makes it 200"),
        ('"step_time": 0.0125', '"step_time": NaN', {}, "line 2: step_time must be a finite number, got nan"),
        ('"num_draft_tokens": 8', '"num_draft_tokens": 64', {}, "line 2: nodes must be at most"),
        ('"acc_length": 2.5, ', "", {}, "line 2 has none of acc_length"),
        ("512.0}\n\n", "512.0\n\n", {}, "line 2: the JSON is damaged or cut off: copy the file again"),
        ("", "", {"output_tokens": 100}, "line 1: output_tokens is 512 in the file, but 100 was given"),
    ],
)
def test_damaged_points_are_refused(tmp_path: Path, old: str, new: str, given: dict[str, Any], message: str) -> None:
    require_refused(tmp_path, BENCH.replace(old, new), message, **given)


INFO = {
    "model_path": "owner/target",
    "tp_size": 2,
    "quantization": "fp8",
    "kv_cache_dtype": "auto",
    "version": "0.5.15",
    "speculative_algorithm": None,
    "speculative_draft_model_path": None,
    "speculative_num_steps": None,
    "speculative_num_draft_tokens": None,
}
EAGLE = {
    "speculative_algorithm": "EAGLE3",
    "speculative_draft_model_path": "owner/draft",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 8,
}
SERVING = {
    "tag": None,
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": "inf",
    "max_concurrency": 8,
    "server_info": INFO,
    "duration": 50.0,
    "completed": 100,
    "total_input_tokens": 51200,
    "total_output_tokens": 12900,
    "output_throughput": 258.0,
    "mean_tpot_ms": 15.625,
    "mean_itl_ms": 15.6,
    "concurrency": 4.6,
    "accept_length": None,
}
NAMES: dict[str, Any] = {
    "model": "owner/target",
    "gpus": 2,
    "engine": "sglang",
    "version": "0.5.15",
    "quantisation": "fp8",
}


def test_bench_serving(tmp_path: Path) -> None:
    file = str(tmp_path / "bench")
    plain = read(tmp_path, [SERVING])
    assert plain.runs == (Run("plain", 4, 575.5, 0.015625, prefill_tokens=16, source=file, **NAMES),)
    assert plain.assumed == (ASSUMED,)
    speculative = SERVING | {"accept_length": 2.5, "server_info": INFO | EAGLE}
    found = read(tmp_path, json.dumps(speculative))
    shape: dict[str, Any] = {"tokens": 8, "depth": 3, "tau": 2.5, "draft": "owner/draft"}
    cycle = Run("speculative", 4, 575.5, 0.0390625, prefill_tokens=40, source=file, **shape, **NAMES)
    assert found.runs == (cycle,)
    assert found.assumed == (ASSUMED, SINCE_START)
    apart = speculative | {"server_info": {"prefill": [{}], "decode": [INFO | EAGLE]}}
    assert read(tmp_path, json.dumps(apart)).runs == (cycle,)
    (unnamed,) = read(tmp_path, json.dumps(speculative | {"server_info": None}), nodes=7, depth=3).runs
    assert (unnamed.tokens, unnamed.depth, unnamed.model) == (8, 3, None)


def test_a_server_that_speculates_but_reports_no_tau_is_refused(tmp_path: Path) -> None:
    lost = SERVING | {"server_info": INFO | EAGLE}
    require_refused(tmp_path, [SERVING, lost], r"line 2: tau of a speculative run is missing, .* seconds per cycle = b")
    assert read(tmp_path, [lost], tau=2.5).runs[0].tau == 2.5
    beyond = lost | {"accept_length": 5.0}
    require_refused(
        tmp_path, [SERVING, beyond], "line 2: tau must be at most 4, one token per level and one more, got 5"
    )
    assert read(tmp_path, [lost | {"accept_length": 4.1}]).runs[0].tau == 4
    versions = SERVING | {"server_info": INFO | {"version": "0.5.16"}}
    require_refused(tmp_path, [SERVING, versions], "line 2: version is '0.5.16', but '0.5.15' in .*line 1")
