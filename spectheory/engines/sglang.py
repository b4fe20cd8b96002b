"""SGLang: its statistics from responses, Prometheus and the log, files of `bench_serving`, and its flags.

Responses: the names are from the wheels of 0.5.12, 0.5.15 and 0.5.23, and the older names from stored source, read
2026-11-21. 0.5.12 renamed most of `meta_info` and kept some old names next to the new names; 0.5.23 has only the new
names. Metrics and log: from sglang/srt/observability and the scheduler's log of 0.5.x, read 2026-11-23. The sum of
`sglang:inter_token_latency_seconds` is seconds and its count is tokens, so its mean is the time per token, also with
speculation. The throughput of a line `Decode batch` is the tokens since the previous such line by the time since then.

bench_serving: python/sglang/benchmark/serving.py (stored commit 00f9ec47 of https://github.com/sgl-project/sglang, read
2026-11-22) appends JSON Lines with means over requests. `accept_length` is the server's mean since its start, and
`server_info` has the server's arguments.

Flags: versions 0.5.15 to 0.5.23, from the wheels of 0.5.15, 0.5.18 and 0.5.23, read 2026-11-22 (server_args.py,
arg_groups/speculative_hook.py, speculative/adaptive_spec_params.py). NEXTN is another name of EAGLE. The adaptive
config of older versions has no batch sizes as keys (PR #24055). `--speculative-num-draft-tokens` counts the root: it is
n + 1 for n drafted nodes. Levels and steps are the same. Keys of the adaptive config are lower bounds: batch size b,
padded to a captured CUDA graph, uses the largest key <= b.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spectheory.core.errors import InputError
from spectheory.engines import report_values
from spectheory.engines.benchmark_file import BenchmarkFormat, Entry
from spectheory.engines.engine import Engine, Export, Observed, Reader, nothing_decoded
from spectheory.engines.prometheus import Metrics
from spectheory.engines.report_values import EXACT, agree, count, counts, json_values, mapping, missing, pick
from spectheory.engines.serving_run import ASSUMED, CONDITIONS, served_run
from spectheory.engines.statistics import TOTALS_ONLY, Counts, Statistics, added, assume_constant, from_histograms
from spectheory.hardware.runs import Conditions, Run
from spectheory.planning.envelope import Envelope
from spectheory.planning.fitting import ChainRange, Fitting, checked_ranges, one_length

ALGORITHMS = {
    "model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
    "ngram": "NGRAM",
}
"""The algorithm of SGLang for each family of drafts."""
ADAPTIVE_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN")
ONE_CHAIN = {"NGRAM": ("--speculative-ngram-max-bfs-breadth", "1"), "DFLASH": (), "DSPARK": ()}
"""The algorithms that draft one chain of the same length at all batch sizes, and flags that they need for this."""
ADAPTIVE_FILE = "adaptive.json"
VERSIONS = {f"0.5.{patch}": patch >= 18 for patch in range(15, 24)}
"""The versions, and whether they have DSPARK: of those that were read, 0.5.15 does not."""


def export(plan: Envelope | Sequence[ChainRange], *, version: str, algorithm: str, model: str | None) -> Export:
    """The plan as flags of `sglang.launch_server`, with an adaptive config for chains by batch size.

    `model` is None if the target has a draft of its own.
    """
    key = ENGINE.release(version)
    if algorithm in ONE_CHAIN and (isinstance(plan, Envelope) or len(plan) > 1):
        raise InputError(f"plan must be one ChainRange for {algorithm} of SGLang: it drafts one chain")
    if algorithm == "DSPARK" and not VERSIONS[key]:
        raise InputError(f"DSPARK needs SGLang 0.5.18 or newer, got {key}")
    args = ["--speculative-algorithm", algorithm]
    args += [] if model is None else ["--speculative-draft-model-path", model]
    ranges = [] if isinstance(plan, Envelope) else checked_ranges(plan)
    if algorithm in ONE_CHAIN:
        args += ["--speculative-num-draft-tokens", str(ranges[0].length + 1), *ONE_CHAIN[algorithm]]
        return Export("SGLang", key, tuple(args))
    if len(ranges) > 1 and algorithm not in ADAPTIVE_ALGORITHMS:
        raise InputError(f"algorithm must be EAGLE, EAGLE3 or NEXTN for chains by batch size, got {algorithm!r}")
    longest = max((item.length for item in ranges), default=0)
    shape = plan if isinstance(plan, Envelope) else Envelope(longest, 1, longest)
    if shape.branching == 1 and shape.nodes != shape.levels:
        raise InputError(
            f"nodes must be levels={shape.levels} for branching=1, got {shape.nodes}: with topk 1 SGLang always "
            "verifies steps + 1 tokens"
        )
    # SGLang requires all three or none
    args += ["--speculative-num-steps", str(shape.levels), "--speculative-eagle-topk", str(shape.branching)]
    args += ["--speculative-num-draft-tokens", str(shape.nodes + 1)]
    if len(ranges) < 2:
        pages = "topk > 1 with page_size > 1 needs the attention backend flashinfer, fa3 or triton"
        return Export("SGLang", key, tuple(args), {}, (pages,) * (shape.branching > 1))
    config = {str(item.first_batch): {"candidate_steps": [item.length]} for item in ranges}
    args += ["--speculative-adaptive", "--speculative-adaptive-config", ADAPTIVE_FILE]
    notes = (
        "a batch is padded to the next captured CUDA graph before its range is looked up: capture the last batch size "
        f"of each range, {', '.join(str(item.last_batch) for item in ranges)} (--cuda-graph-bs)",
        f"above batch size {ranges[-1].last_batch} SGLang continues with {ranges[-1].length} steps",
        "with attention DP, two-batch overlap, pdmux or multi-layer EAGLE, SGLang falls back to fixed steps",
    )
    return Export("SGLang", key, tuple(args), {ADAPTIVE_FILE: json.dumps(config, indent=1) + "\n"}, notes)


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest envelope, or the fastest chains that the version can run."""
    algorithm = fitting.of_family(ALGORITHMS)
    rule, allowed, trees = one_length, f"SGLang takes with {algorithm}, one for all batch sizes", True
    if algorithm in ONE_CHAIN:
        trees = False
    elif algorithm in ADAPTIVE_ALGORITHMS or len(set(fitting.chain_lengths)) == 1:
        rule, allowed = (lambda fitting: fitting.chain_lengths), "SGLang takes by batch size"
    found, notes = fitting.better(rule, allowed, trees=trees)
    return export(found.runs, version=version, algorithm=algorithm, model=fitting.loaded).after(*notes)


CYCLES = ("spec_verify_ct",)
ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def from_meta_info(data: Sequence[Mapping[str, Any]], min_trials: int = 100) -> Statistics:
    """Statistics of responses, which are added. Each is a `meta_info`, or a response that contains one.

    Names of all versions of SGLang are understood. Responses in which nothing was verified are left out.
    """
    infos = [mapping("meta_info", item.get("meta_info", item)) for item in data]
    known = (*CYCLES, *ACCEPTED, *DRAFTED, *HISTOGRAM)
    if not any(name in info for info in infos for name in known):
        raise missing("meta_info", known, (name for info in infos for name in info))
    used = [info for info in infos if pick(info, CYCLES) != 0 and any(name in info for name in known)]
    read = [_read(info) for info in used]
    width = max([2, *(len(histogram) for _, histogram in read if histogram is not None)])
    parts = [
        part if histogram is None else replace(part, by_position=from_histograms({width - 1: histogram}))
        for part, histogram in read
    ]
    return added(parts, "responses", min_trials)


def _read(info: Mapping[str, Any]) -> tuple[Counts, list[int] | None]:
    """The totals of one response and its histogram, after a check that they agree."""
    histogram, drafted, accepted, cycles = (pick(info, names) for names in (HISTOGRAM, DRAFTED, ACCEPTED, CYCLES))
    if histogram is not None:
        histogram = counts(HISTOGRAM[0], histogram)
        totals = {CYCLES[0]: sum(histogram), ACCEPTED[0]: sum(j * n for j, n in enumerate(histogram))}
        for (name, expected), value in zip(totals.items(), (cycles, accepted), strict=True):
            if value is not None:
                agree(name, count(name, value), expected, "the histogram", 0)
        cycles, accepted = totals.values()
    if cycles is None or accepted is None:
        raise missing("meta_info", CYCLES if cycles is None else ACCEPTED, info)
    cycles, accepted = count(CYCLES[0], cycles), count(ACCEPTED[0], accepted)
    return Counts(cycles, None if drafted is None else count(DRAFTED[0], drafted), accepted), histogram


LENGTH = "sglang:spec_accept_length"
LATENCY = ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds")
BETWEEN = "the time of a step contains prompts that are read between two steps"


def from_metrics(metrics: Metrics, min_trials: int = 100) -> Statistics:
    """Statistics of `/metrics`: gauges of the last batches, and the number of cycles since the server started.

    They have no acceptance rates, because SGLang has no counters of drafted and accepted tokens here. Use `meta_info`.
    """
    del min_trials
    metrics.require(LENGTH)
    tau, nodes = metrics.gauge(LENGTH), metrics.gauge("sglang:spec_num_draft_tokens")
    if not tau:
        raise InputError(f"{LENGTH} must be a finite number above 0, got {tau}: nothing has been verified yet")
    if nodes and tau > nodes + EXACT:
        raise InputError(f"{LENGTH} is {tau:g}, more than sglang:spec_num_draft_tokens={nodes:g}: pass a single scrape")
    said = (TOTALS_ONLY, "tau is a gauge of the last batches, not a mean since the start")
    return Statistics(None, tau, metrics.counter("sglang:spec_verify_calls") or None, assumed=said)


def observe_metrics(metrics: Metrics, min_trials: int) -> Observed:
    """A model in a scrape, or in the difference of two. tau and the batch are gauges, in the mean of the scrapes."""
    seconds = metrics.mean(*LATENCY)
    if seconds is None:
        metrics.require(*(f"{name}_count" for name in LATENCY))
        raise nothing_decoded()
    counted, requests = metrics.gauge("sglang:spec_num_draft_tokens"), "sglang:num_requests"
    found = from_metrics(metrics, min_trials) if metrics.gauge(LENGTH) else None
    tau = 1.0 if found is None else found.tau or 1.0
    prompt = metrics.quotient("sglang:prompt_tokens", requests)
    cached = metrics.quotient("sglang:cached_tokens", "sglang:prompt_tokens") or 0.0
    return Observed(
        statistics=found,
        batch=metrics.gauge("sglang:num_running_reqs") or None,
        step_seconds=seconds * tau,
        prompt_tokens=None if prompt is None else prompt * (1 - cached),
        output_tokens=metrics.quotient("sglang:generation_tokens", requests),
        drafted=counted - 1 if counted else None,
        notes=("tau and the batch are gauges of the last batches", BETWEEN),
    )


_RUNNING = r"#running-req:\s*(\d+)"
_RATE = r"gen throughput \(token/s\):\s*([\d.]+)"
_LENGTH = r"accept len:\s*([\d.]+)"
_SHARE = r"accept rate:\s*([\d.]+)"


def observe_log(text: str, min_trials: int) -> Observed:
    """A server by its lines `Decode batch` in which requests ran."""
    del min_trials
    for form in (_RUNNING, _RATE, _LENGTH, _SHARE):
        report_values.require_whole(text, form.partition(r"\s")[0], form)
    rows, shapes = [], []
    for line in text.splitlines():
        running, rate, length, share = (re.search(form, line) for form in (_RUNNING, _RATE, _LENGTH, _SHARE))
        if running and rate and int(running[1]) and float(rate[1]):
            tau = max(float(length[1]), 1.0) if length else 1.0
            rows.append((int(running[1]), float(rate[1]), tau))
            if share and float(share[1]):
                shapes.append((tau - 1) / float(share[1]))
    if not rows:
        raise nothing_decoded()
    cycles, running = sum(rate / tau for _, rate, tau in rows), sum(running for running, *_ in rows)
    tau, speculating = sum(rate for _, rate, _ in rows) / cycles, _LENGTH[:10] in text
    said = (TOTALS_ONLY, f"{len(rows)} lines of the log are read")
    nodes = sum(shapes) / len(shapes) if shapes else None
    found = Statistics(None, tau, assumed=said)
    if nodes:
        found = assume_constant(found, max(round(nodes), math.ceil(tau - 1)))
    return Observed(
        statistics=found if speculating else None,
        batch=running / len(rows),
        step_seconds=running / cycles,
        drafted=nodes,
        notes=(said[1], BETWEEN),
    )


def from_log(text: str, min_trials: int = 100) -> Statistics:
    """Tau of a log, and one rate for all positions of a chain, which its lines imply if they have an accept rate."""
    found = observe_log(text, min_trials).statistics
    if found is None:
        raise InputError(f"nothing was drafted, no line has {_LENGTH[:10]}: give the log of a server that speculates")
    return found


def _served(entry: Entry, conditions: Conditions) -> Run:
    """The run of a line of `bench_serving`. See `serving_run` for batch, context and seconds."""
    info, backend = _server(entry), entry.text("backend") or ""
    return served_run(
        entry,
        _speculation(entry, info),
        conditions,
        model=info.text("model_path"),
        gpus=info.count("tp_size", least=1) if info.has("tp_size") else None,
        engine=next((name for name in ("sglang", "vllm") if backend.startswith(name)), None),
        version=info.text("version"),
    )


def _server(entry: Entry) -> Entry:
    """The arguments of the server; of the first decoding server if it serves prefill and decoding apart."""
    info = entry.data.get("server_info")
    decoding = info.get("decode") if isinstance(info, Mapping) else None
    servers = [*(decoding if isinstance(decoding, list) else []), info]
    return Entry(entry.where, next((server for server in servers if isinstance(server, Mapping)), {}))


def _speculation(entry: Entry, info: Entry) -> Conditions | None:
    """Tau and the shape of the tree; None if the server does not speculate. SGLang counts the root as a draft token."""
    if not entry.has("accept_length") and info.text("speculative_algorithm") is None:
        return None
    tau = entry.number("accept_length", least=1) if entry.has("accept_length") else None
    steps, nodes = (
        info.count(name, least=least) if info.has(name) else None
        for name, least in (("speculative_num_steps", 1), ("speculative_num_draft_tokens", 2))
    )
    return Conditions(tau, None if nodes is None else nodes - 1, steps)


SINCE_START = "accept_length is the server's mean since its start, not that of the benchmark"
ENGINE = Engine(
    name="sglang",
    title="SGLang",
    versions=VERSIONS,
    parts=3,
    exporter=_fitted,
    readers={
        "sglang-response": Reader(lambda text, least: from_meta_info(json_values(text), least), requests=json_values),
        "sglang-metrics": Reader(from_metrics, observe_metrics, scraped=True),
        "sglang-log": Reader(from_log, observe_log),
    },
    benchmarks={
        "sglang-serving": BenchmarkFormat(
            ("accept_length", "mean_tpot_ms", "total_output_tokens"), _served, CONDITIONS, (ASSUMED, SINCE_START)
        )
    },
)
