"""Files of SGLang's benchmarks: `bench_one_batch`, `bench_speculative.py` and `bench_serving`.

The fields are from python/sglang/bench_one_batch.py (stored commit 00944150), scripts/playground/bench_speculative.py
(stored commit 01d2a3d0) and python/sglang/benchmark/serving.py (stored commit 00f9ec47) of
https://github.com/sgl-project/sglang, read 2026-11-22. All three append JSON Lines.

bench_one_batch: `median_decode_latency` is the median seconds of `output_len - 1` decoding steps of a batch, which all
start after prompts of `input_len`. It names no model. Its prefill runs without a CUDA graph, unlike a verification.

bench_speculative.py: see `sglang.from_bench_speculative`. `step_time` is the 20th percentile of the seconds of a cycle,
so it is shorter than the mean. The prompts are eight requests of 10 to 130 tokens.

bench_serving: means over requests, as in vLLM's benchmark. `accept_length` is the server's mean since its start, and
`server_info` has the server's arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectheory.engines import sglang_points
from spectheory.engines.benchmark_file import BenchmarkFile, BenchmarkFormat, BenchmarkRuns, Entry, Ignored, each
from spectheory.engines.report_values import within
from spectheory.engines.serving_run import ASSUMED, CONDITIONS, Served, Speculation, agreed, mean_context
from spectheory.hardware.runs import Conditions, Run

PROMPT = 50
"""Mean tokens of the prompts of `bench_speculative.py`, an estimate."""
ANSWER = 512
"""Tokens of its answers if the file does not say it: the benchmark asks for this many."""
PERCENTILE = "step_time is the 20th percentile of the seconds of a cycle, so slower cycles are left out"
SINCE_START = "accept_length is the server's mean since its start, not that of the benchmark"


def _one_batch(entry: Entry, conditions: Conditions) -> Run | Ignored:
    """The run of an entry of `bench_one_batch`: plain steps of a batch. The prefill is not used."""
    del conditions
    batch, prompt, answer = (entry.count(name, least=1) for name in ("batch_size", "input_len", "output_len"))
    where = f"{entry.where} (batch {batch}, input {prompt}, output {answer})"
    if answer == 1:
        return Ignored(f"{where} has no decoding steps")
    entry = Entry(where, entry.data)
    seconds = entry.positive("median_decode_latency")
    if entry.has("median_decode_throughput"):
        rate, expected = entry.positive("median_decode_throughput"), batch / seconds
        why = "batch_size / median_decode_latency"
        within(f"{where}: median_decode_throughput", rate, expected, expected, why, 1e-3 * expected)
    return Run("plain", batch, mean_context(prompt, answer - 1), seconds, source=where, engine="sglang")


def read_speculative(file: BenchmarkFile, conditions: Conditions) -> BenchmarkRuns:
    """The runs of `bench_speculative.py`: cycles, and plain steps for steps=0. All answers have the same length.

    The prompts are taken as 50 tokens if `input_tokens` is not given.
    """
    prompt = PROMPT if conditions.input_tokens is None else conditions.input_tokens
    prompts = f"prompts have {PROMPT} tokens, because the file does not say it"
    assumed = [PERCENTILE] + [prompts] * (conditions.input_tokens is None)
    return BenchmarkRuns.collect(file, lambda entry: [_cycle(entry, prompt, conditions)], *assumed)


def _cycle(entry: Entry, prompt: float, conditions: Conditions) -> Run:
    point = sglang_points.point(entry.data, entry.where)
    stated = entry.number("completion_tokens", least=1) if entry.has("completion_tokens") else None
    answer = agreed(entry.where, "output_tokens", stated, conditions.output_tokens) or ANSWER
    context, seconds = mean_context(prompt, answer - 1), point.step_seconds
    plain = Run("plain", point.batch_size, context, seconds, source=entry.where, engine="sglang")
    if point.envelope is None:
        return plain
    nodes, depth = point.envelope.nodes, point.envelope.levels
    tau = min(point.tau, depth + 1)
    return replace(plain, kind="speculative", tokens=nodes + 1, depth=min(depth, nodes), tau=tau)


def read_serving(file: BenchmarkFile, conditions: Conditions) -> BenchmarkRuns:
    """The runs of `bench_serving`, one per line. See `serving_run` for batch, context and seconds."""
    speculated = any(entry.has("accept_length") for entry in file.entries)
    assumed = [ASSUMED] + [SINCE_START] * speculated
    return BenchmarkRuns.collect(file, lambda entry: [_served(entry, conditions)], *assumed)


def _served(entry: Entry, conditions: Conditions) -> Run:
    info = _server(entry)
    return Served.of_totals(entry).run(_speculation(entry, info), conditions, **_named(entry, info))


def _server(entry: Entry) -> Entry:
    """The arguments of the server; of the first decoding server if it serves prefill and decoding apart."""
    info = entry.inside("server_info")
    decoding = info.data.get("decode")
    servers = decoding if isinstance(decoding, list) else []
    return next((Entry(entry.where, server) for server in servers if isinstance(server, Mapping)), info)


def _speculation(entry: Entry, info: Entry) -> Speculation | None:
    """Tau and the shape of the tree; None if the server does not speculate. SGLang counts the root as a draft token."""
    if not entry.has("accept_length") and info.text("speculative_algorithm") is None:
        return None
    tau = entry.number("accept_length", least=1) if entry.has("accept_length") else None
    steps, nodes = (
        info.count(name, least=least) if info.has(name) else None
        for name, least in (("speculative_num_steps", 1), ("speculative_num_draft_tokens", 2))
    )
    return Speculation(tau, None if nodes is None else nodes - 1, steps)


def _named(entry: Entry, info: Entry) -> dict[str, Any]:
    """The deployment, as the server names it."""
    backend = entry.text("backend") or ""
    return {
        "model": info.text("model_path"),
        "draft": info.text("speculative_draft_model_path"),
        "gpus": info.count("tp_size", least=1) if info.has("tp_size") else None,
        "engine": next((name for name in ("sglang", "vllm") if backend.startswith(name)), None),
        "version": info.text("version"),
        "quantisation": info.text("quantization"),
        "kv_dtype": info.text("kv_cache_dtype"),
    }


FORMATS = {
    "sglang-one-batch": BenchmarkFormat(("batch_size", "input_len", "output_len", "prefill_latency"), each(_one_batch)),
    "sglang-speculative": BenchmarkFormat(
        ("batch_size", "steps", "topk", "num_draft_tokens"), read_speculative, ("input_tokens", "output_tokens")
    ),
    "sglang-serving": BenchmarkFormat(
        ("accept_length", "mean_tpot_ms", "total_output_tokens"), read_serving, CONDITIONS
    ),
}
"""The formats of SGLang's benchmarks, by name."""
