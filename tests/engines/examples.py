"""Plans to export, reports and benchmarks of engines, and what tests read out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import BenchmarkRuns, ChainRange, Conditions, Statistics, read_runs

RANGES = [ChainRange(1, 16, 5), ChainRange(17, 64, 3), ChainRange(65, 512, 0)]
TREE = st.Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])

PROMETHEUS = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m, {x}"} 600.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m, {x}"} 4.0e+02
vllm:spec_decode_num_drafts_created{engine="0",model_name="m, {x}"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m, {x}"} 1800.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="m, {x}"} 1200.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m, {x}"} 900.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="m, {x}"} 600.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m, {x}",position="0"} 500.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m, {x}",position="1"} 300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m, {x}",position="2"} 100.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m, {x}",position="0"} 300.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m, {x}",position="1"} 200.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m, {x}",position="2"} 100.0
vllm:num_requests_running{engine="0"} 1.0
"""
LOG = (
    "(APIServer pid=347228) INFO 08-04 20:51:08 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 3.49, "
    "Accepted throughput: 0.12 tokens/s, Drafted throughput: 0.34 tokens/s, Accepted: 92 tokens, Drafted: 259 tokens, "
    "Per-position acceptance rate: 0.757, 0.622, 0.432, 0.324, 0.189, 0.108, 0.054, Avg Draft acceptance rate: 35.5%"
)
REQUEST: dict[str, Any] = {
    "acceptance_histogram": [39, 1, 0, 3],
    "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]},
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
}
META_INFO = {
    "spec_verify_ct": 100,
    "spec_num_correct_drafts": 150,
    "spec_num_proposed_drafts": 300,
    "spec_accept_rate": 0.5,
    "spec_correct_drafts_histogram": [20, 40, 10, 30],
}
SGLANG_METRICS = """\
sglang:spec_accept_length{tp_rank="0"} 2.5
sglang:spec_num_draft_tokens{tp_rank="0"} 4
sglang:spec_verify_calls_total{engine_type="unified"} 40
"""
ITERATION: dict[str, Any] = {
    "iterLatencyMS": 20.0,
    "specDecodingStats": {
        "numDraftTokens": 24,
        "numAcceptedTokens": 12,
        "numRequestsWithDraftTokens": 8,
        "acceptanceLength": 2.5,
    },
}
SLOT = (
    "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), "
    "mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)"
)
SERVER = (
    "statistics     draft-eagle3: #calls(b,g,a) =    1     87     87, #gen drafts =     87, #acc drafts =    70, "
    "#gen tokens =    259, #acc tokens =   167, #mean acc len = 2.92, #acc rate/pos = (0.805, 0.632, 0.483), "
    "dur(b,g,a) = 0.005, 325.555, 0.114 ms"
)
REPORTS: dict[str, tuple[str, int | None, float | None, list[float] | None]] = {
    "vllm-metrics": (PROMETHEUS, 1000, 2.5, [0.8, 0.625, 0.4]),
    "vllm-log": (LOG, 37, 3.49, [28 / 37, 23 / 28, 16 / 23]),
    "vllm-response": (json.dumps({"metrics": {"speculative_decoding": REQUEST}}), 43, 53 / 43, [4 / 43, 3 / 4, 1]),
    "sglang-response": (json.dumps(META_INFO, indent=1) + json.dumps(META_INFO), 200, 2.5, [0.8, 0.5, 0.75]),
    "sglang-metrics": (SGLANG_METRICS, 40, 2.5, None),
    "sglang-log": ("Decode batch. #running-req: 4, accept len: 1.30, gen throughput (token/s): 130.0", None, 1.3, None),
    "trtllm-stats": (json.dumps([ITERATION, ITERATION]), 16, 2.5, None),
    "llama.cpp-log": (SERVER, 87, 2.92, [70 / 87, 55 / 70, 42 / 55]),
}
"""For each kind of report a text, and the drafts, tau and rates by position in it."""

SERVE = {
    "endpoint_type": "vllm",
    "backend": "vllm",
    "model_id": "owner/target",
    "max_concurrency": 8,
    "duration": 50.0,
    "completed": 100,
    "total_input_tokens": 51200,
    "total_output_tokens": 12900,
    "output_throughput": 258.0,
    "mean_tpot_ms": 15.625,
    "mean_itl_ms": 15.6,
}
"""A result of `vllm bench serve`: 2 requests per second of 128 steps of 15.625 ms, so that 4 are decoding at a time."""
SERVING = {name: value for name, value in SERVE.items() if name not in ("model_id", "endpoint_type")} | {
    "backend": "sglang",
    "accept_length": None,
    "server_info": {
        "model_path": "owner/target",
        "tp_size": 2,
        "quantization": "fp8",
        "kv_cache_dtype": "auto",
        "version": "0.5.15",
        "speculative_algorithm": None,
    },
}
BENCH = {
    "build_number": 9300,
    "gpu_info": "NVIDIA GeForce RTX 3090",
    "backends": "CUDA",
    "model_filename": "models/m-q4_k_m.gguf",
    "model_type": "llama 8B Q4_K - Medium",
    "n_ubatch": 512,
    "type_k": "f16",
    "type_v": "f16",
    "n_gpu_layers": 99,
    "n_cpu_moe": 0,
    "split_mode": "layer",
    "no_kv_offload": False,
    "devices": "auto",
    "n_prompt": 0,
    "n_gen": 101,
    "n_depth": 400,
    "avg_ns": 1_010_000_000,
    "avg_ts": 100.0,
    "samples_ns": [1_010_000_000, 1_010_000_000, 1_010_000_000],
}
"""A test of llama-bench."""


@hs.composite
def schedules(draw: hs.DrawFn, *, longest_first: bool = False) -> list[ChainRange]:
    """At least two ranges that cover the batch sizes from 1 on, the lengths at most 32 and not all 0."""
    widths = draw(hs.lists(hs.integers(1, 40), min_size=2, max_size=6))
    lengths = draw(hs.lists(hs.integers(0, 32), min_size=len(widths), max_size=len(widths)).filter(any))
    if longest_first:
        lengths[0] = max(lengths)
    ends = np.cumsum(widths).tolist()
    return [ChainRange(end - width + 1, end, k) for end, width, k in zip(ends, widths, lengths, strict=True)]


def flag(export: Any, name: str) -> str:
    return export.args[export.args.index(name) + 1]


def acceptance(statistics: Statistics) -> st.Acceptance:
    assert statistics.acceptance is not None
    return statistics.acceptance


def read(folder: Path, content: Any, **conditions: Any) -> BenchmarkRuns:
    """What is read from a benchmark's file with this content: text, or JSON Lines for several objects."""
    file = folder / "bench"
    file.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, content)), encoding="utf-8")
    return read_runs(file, Conditions(**conditions))


def require_refused(folder: Path, content: Any, message: str, **conditions: Any) -> None:
    """Check that the file is refused with a message that names it."""
    with pytest.raises(st.InputError, match=message) as caught:
        read(folder, content, **conditions)
    assert str(caught.value).startswith(str(folder / "bench"))
