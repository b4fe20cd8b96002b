"""Files of llama.cpp's benchmarks: `llama-bench -o json` or `-o jsonl`, and `llama-batched-bench`.

The fields are from tools/llama-bench/llama-bench.cpp (stored commit 0104b151) and tools/batched-bench/batched-bench.cpp
(stored commits 0a1f0179 and 2fb62f8f) of https://github.com/ggml-org/llama.cpp, read 2026-11-22.

llama-bench: a test processes `n_prompt` tokens in forwards of at most `n_ubatch`, then `n_gen` tokens one by one, of
one sequence with `n_depth` tokens in the cache before (older builds: none). `avg_ns` and `samples_ns` are the times of
the whole test, `avg_ts` is the mean of the rates of the samples. `gpu_info` lists all GPUs of the machine, with ", ",
or "/" in older builds, between them; `devices` lists those that were chosen, and with `split_mode` none one is used.

llama-batched-bench: `pl` sequences, each with a prompt of `pp` tokens and `tg` generated tokens; `t_pp` and `t_tg` are
the seconds of both parts, `speed_tg` is `pl * tg / t_tg`. The table has the same figures as PP, TG, B, T_PP s, T_TG s
and S_TG t/s. It names no model and no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median
from typing import Any

from spectheory.engines.benchmark_file import BenchmarkFile, BenchmarkFormat, BenchmarkRuns, Entry, Ignored
from spectheory.engines.report_values import within
from spectheory.engines.serving_run import mean_context
from spectheory.hardware.runs import Conditions, Run

LONGEST_FORWARD = 256
"""A prompt of at most this many tokens is like the forward of a verified tree; a longer prompt is only a prefill."""
LAST_LOGITS = "a forward of a prompt computes the logits of its last token only; a verification computes all of them"
_EXACT = 1e-3
"""Tolerance for rates that are printed with six digits, as a share."""
_SIZES = {"Small": "S", "Medium": "M", "Large": "L"}
_TABLE = {"PP": "pp", "TG": "tg", "B": "pl", "T_PP s": "t_pp", "T_TG s": "t_tg", "S_TG t/s": "speed_tg"}


def read_bench(file: BenchmarkFile, conditions: Conditions) -> BenchmarkRuns:
    """The runs of `llama-bench`: `tg` as plain steps of batch 1, short `pp` as forwards.

    Tests `pg`, which time a prompt and generated tokens together, and long prompts are not used, and neither are tests
    with a part of the model on the CPU. The seconds are the median of the samples.
    """
    del conditions
    found = BenchmarkRuns.collect(file, _bench_runs)
    forwards = any(run.kind == "forward" for run in found.runs)
    return BenchmarkRuns(found.runs, found.ignored, (LAST_LOGITS,) if forwards else ())


def _bench_runs(entry: Entry) -> Iterable[Run | Ignored]:
    prompt, generated = entry.count("n_prompt"), entry.count("n_gen")
    depth = entry.count("n_depth") if entry.has("n_depth") else 0
    test = f"pp{prompt}+tg{generated}" if prompt and generated else f"tg{generated}" if generated else f"pp{prompt}"
    where = f"{entry.where} ({test})"
    entry = Entry(where, entry.data)
    reason = _why_not(entry, prompt, generated)
    if reason:
        return [Ignored(f"{where} {reason}")]
    seconds = _test_seconds(entry, prompt + generated)
    named = _named(entry)
    if generated:
        return [Run("plain", 1, mean_context(depth, generated), seconds / generated, source=where, **named)]
    return [Run("forward", 1, depth, seconds, tokens=prompt, source=where, **named)]


def _why_not(entry: Entry, prompt: int, generated: int) -> str:
    """Why a test is not used; empty if it is."""
    if prompt and generated:
        return "times a prompt and generated tokens together"
    if not prompt and not generated:
        return "processes no tokens"
    if not generated and prompt > LONGEST_FORWARD:
        return f"is a prefill of more than {LONGEST_FORWARD} tokens"
    if not generated and entry.has("n_ubatch") and prompt > entry.count("n_ubatch"):
        return f"splits its prompt into forwards of n_ubatch={entry.count('n_ubatch')} tokens"
    if entry.data.get("backends") != "CPU" and entry.data.get("n_gpu_layers") == 0:
        return "has no layer on the GPU (n_gpu_layers=0)"
    if entry.has("n_cpu_moe") and entry.count("n_cpu_moe"):
        return f"has the experts of {entry.count('n_cpu_moe')} layers on the CPU (n_cpu_moe)"
    return "has the KV cache on the CPU (no_kv_offload)" if entry.data.get("no_kv_offload") is True else ""


def _test_seconds(entry: Entry, tokens: int) -> float:
    """Median seconds of a test of `tokens` tokens, after a check that its figures agree."""
    mean, rate, samples = entry.positive("avg_ns"), entry.positive("avg_ts"), entry.numbers("samples_ns")
    times = samples or [mean]
    rates = [1e9 * tokens / time for time in times]
    by = "samples_ns" if samples else "avg_ns"
    within(f"{entry.where}: avg_ns", mean, min(times), max(times), by, 1 + _EXACT * mean)
    spread = 1 if samples else float("inf")
    within(f"{entry.where}: avg_ts", rate, min(rates), max(rates) * spread, f"{tokens} tokens and {by}", _EXACT * rate)
    return median(times) / 1e9


def _named(entry: Entry) -> dict[str, Any]:
    """The deployment of a test, as `llama-bench` names it."""
    gpus = [name for name in re.split(r"\s*[,/]\s*", entry.text("gpu_info") or "") if name]
    devices = entry.text("devices")
    most = 1 if entry.data.get("split_mode") == "none" else len(devices.split("/")) if devices else len(gpus)
    used = gpus[:most]
    key, value = entry.text("type_k"), entry.text("type_v")
    return {
        "model": entry.text("model_filename"),
        "gpu": " + ".join(dict.fromkeys(used)) or None,
        "gpus": len(used) or None,
        "engine": "llama.cpp",
        "version": f"b{entry.count('build_number')}" if entry.has("build_number") else None,
        "quantisation": _quantisation(entry.text("model_type") or ""),
        "kv_dtype": key if key == value else f"{key}/{value}",
    }


def _quantisation(model_type: str) -> str | None:
    """The format in a model's description: "llama 8B Q4_K - Medium" is q4_k_m."""
    found = re.search(r"\b(I?Q\d\w*|TQ\d\w*|BF16|F16|F32|MXFP4|NVFP4)(?: - (Small|Medium|Large))?", model_type)
    if found is None:
        return None
    return found[1].lower() + (f"_{_SIZES[found[2]].lower()}" if found[2] else "")


def read_batched(file: BenchmarkFile, conditions: Conditions) -> BenchmarkRuns:
    """The runs of `llama-batched-bench`: generated tokens as plain steps of a batch, short prompts as forwards.

    Rows in which several sequences share one prompt are not used, because their steps read less of the cache than
    their context says. With `is_tg_separate`, which only the line above the table says, the sequences are generated one
    after another: a plain step of batch 1.
    """
    del conditions
    return _batched(file, file.entries)


def read_table(file: BenchmarkFile, conditions: Conditions) -> BenchmarkRuns:
    """The runs of the table that `llama-batched-bench` prints, as `read_batched`. Take the line above the table too."""
    del conditions
    renamed = [Entry(e.where, {_TABLE.get(name, name): value for name, value in e.data.items()}) for e in file.entries]
    return _batched(file, renamed)


def _batched(file: BenchmarkFile, entries: Iterable[Entry]) -> BenchmarkRuns:
    settings = dict(re.findall(r"\b(is_pp_shared|is_tg_separate|n_ubatch) = ([0-9]{1,18})\b", file.other))
    common = {name: int(value) for name, value in settings.items()}
    merged = BenchmarkFile(file.name, tuple(Entry(entry.where, {**common, **entry.data}) for entry in entries))
    found = BenchmarkRuns.collect(merged, _batched_runs)
    assumed = [LAST_LOGITS] if any(run.kind == "forward" for run in found.runs) else []
    if not all("is_pp_shared" in entry.data for entry in merged.entries):
        assumed.append("no two sequences share a prompt: the line above the table, which says so, is not in the file")
    return BenchmarkRuns(found.runs, found.ignored, tuple(assumed))


def _batched_runs(entry: Entry) -> Iterable[Run | Ignored]:
    prompt, generated, batch = entry.count("pp"), entry.count("tg"), entry.count("pl", least=1)
    where = f"{entry.where} (pp {prompt}, tg {generated}, batch {batch})"
    entry = Entry(where, entry.data)
    if batch > 1 and entry.data.get("is_pp_shared"):
        return [Ignored(f"{where} has a prompt that all sequences share")]
    return [_prompt(entry, prompt, batch), _generation(entry, prompt, generated, batch)]


def _prompt(entry: Entry, prompt: int, batch: int) -> Run | Ignored:
    """The prompts as a forward, if they are short enough for one."""
    most = entry.count("n_ubatch", least=1) if entry.has("n_ubatch") else LONGEST_FORWARD
    if not 0 < prompt <= LONGEST_FORWARD or prompt * batch > most:
        return Ignored(f"{entry.where} has no prompts of {LONGEST_FORWARD} tokens or fewer that fit into one forward")
    return Run("forward", batch, 0, entry.positive("t_pp"), tokens=prompt, source=entry.where, engine="llama.cpp")


def _generation(entry: Entry, prompt: int, generated: int, batch: int) -> Run | Ignored:
    """The generated tokens as plain steps."""
    if not generated:
        return Ignored(f"{entry.where} generates no tokens")
    total, rate = entry.positive("t_tg"), entry.positive("speed_tg")
    # The table has three decimals of the seconds and two of the rate.
    rounding = 0.0006 + total * (0.006 / rate + 1e-5)
    expected = batch * generated / rate
    within(f"{entry.where}: t_tg", total, expected, expected, "pl * tg / speed_tg", rounding)
    together = 1 if entry.data.get("is_tg_separate") else batch
    return Run.from_throughput(
        rate, batch=together, context=mean_context(prompt, generated), source=entry.where, engine="llama.cpp"
    )


FORMATS = {
    "llama.cpp-bench": BenchmarkFormat(("n_prompt", "n_gen", "avg_ts"), read_bench),
    "llama.cpp-batched-bench": BenchmarkFormat(("pp", "tg", "pl", "speed_tg"), read_batched),
    "llama.cpp-batched-bench-table": BenchmarkFormat(("PP", "TG", "B", "S_TG t/s"), read_table),
}
"""The formats of llama.cpp's benchmarks, by name."""
