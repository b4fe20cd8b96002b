"""vLLM: its statistics from Prometheus, the log and single responses, files of `vllm bench serve`, and its config.

The names are from vllm/v1/spec_decode/metrics.py, vllm/v1/metrics/{stats,loggers}.py, vllm/benchmarks/serve.py (stored
commit 009e6d4a) and https://docs.vllm.ai/en/v0.32.0/features/speculative_decoding/, read 2026-11-21 to 2026-11-23.
Metrics of single requests came with 0.29 (PR #48915). llama.cpp uses the same definitions.

`vllm:inter_token_latency_seconds` is observed once for each request and step, not for each token, so its mean is the
time of a cycle. `vllm:iteration_tokens_total` is observed once for each step, so its count is the number of steps. In
files of `vllm bench serve`, `mean_tpot_ms` is the mean over requests of (latency - time to first token) / (output
tokens - 1), and `mean_itl_ms` the mean time between two chunks of a stream, of tau tokens with speculation. The fields
`spec_decode_*` are differences of the server's counters, and are there only if the server has speculated.

Speculative config: versions 0.24 to 0.32, from vllm/config/speculative.py at 002e77c1 and v1/worker/gpu_model_runner.py
of the source distributions of 0.24.0, 0.25.0 and 0.32.0, read 2026-11-21. `MAX_SPEC_LEN` in
v1/sample/rejection_sampler.py is 128 in all of these. vLLM does not count the root. Trees were removed by PR #42121, so
only chains are exported. Versions before 0.24 run one length at all batch sizes: PR #32374 (merged 2026-06-14) has
`num_speculative_tokens_per_batch_size`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spectheory.core.checks import is_digits
from spectheory.core.errors import InputError
from spectheory.engines import statistics
from spectheory.engines.benchmark_file import BenchmarkFormat, Entry
from spectheory.engines.engine import Engine, Export, Observed, Reader, nothing_decoded, release
from spectheory.engines.prometheus import Metrics
from spectheory.engines.report_values import agree, count, counts, json_values, mapping, missing, require_whole
from spectheory.engines.serving_run import ASSUMED, CONDITIONS, draft_length, served_run
from spectheory.engines.statistics import RECOVERED, Counted, Statistics
from spectheory.hardware.runs import Conditions, Run
from spectheory.planning.fitting import ChainRange, Fitting, at_most, checked_ranges

METHODS = {
    "model": "draft_model",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "p-eagle": "eagle3",
    "dflash": "dflash",
    "dspark": "dspark",
    "medusa": "medusa",
    "pard": "draft_model",
    "mtp": "mtp",
    "ngram": "ngram",
    "suffix": "suffix",
}
"""The method of vLLM for each family of drafts."""
PARALLEL = ("p-eagle", "pard")
"""The families that share the method of others, but draft all tokens in one forward."""
MAX_SPEC_LEN = 128
VERSIONS = {f"0.{minor}": minor >= 25 for minor in range(24, 33)}
"""The versions, and whether they have the method dspark (PR #46995)."""


def export(
    ranges: Sequence[ChainRange], *, version: str, method: str, model: str | None, parallel: bool = False
) -> Export:
    """Chains by batch size as `--speculative-config`, with vLLM's name of the method; some methods need no `model`.

    `parallel` is whether one forward of an EAGLE-3 head or of a draft model drafts all tokens (P-EAGLE, PARD).

    Raises:
        InputError: the version cannot run the chains or the method.
    """
    key, has_dspark = release("vLLM", version, VERSIONS)
    ranges = checked_ranges(ranges)
    if method == "dspark" and not has_dspark:
        raise InputError(f"method 'dspark' needs vLLM 0.25 or newer, got {key}")
    config: dict[str, Any] = {"method": method} | ({} if model is None else {"model": model})
    if parallel:
        config["parallel_drafting"] = True
    longest = max(item.length for item in ranges)
    if longest > MAX_SPEC_LEN:
        raise InputError(f"length must be at most MAX_SPEC_LEN={MAX_SPEC_LEN} of vLLM's sampler, got {longest}")
    config["num_speculative_tokens"] = longest
    notes = [f"vLLM drafts {longest} token{'s' * (longest > 1)} at every batch size"]
    if len(ranges) > 1:
        table = [[item.first_batch, item.last_batch, item.length] for item in ranges]
        config["num_speculative_tokens_per_batch_size"] = table
        notes = [
            "vLLM ignores the table when data parallel > 1; full CUDA graphs need Model Runner V2",
            "Model Runner V2 ignored the table and drafted the longest chain (#51510, fix #57053 open in 2026-09)",
        ]
        if any(item.length == 0 for item in ranges):
            notes.append("a user saw throughput collapse at the batch size where the table turns to 0 (#49548, open)")
    if method == "ngram":
        notes.append("add prompt_lookup_max, and prompt_lookup_min, to the config")
    return Export("vLLM", key, ("--speculative-config", json.dumps(config)), {}, tuple(notes))


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest chains by batch size."""
    method = fitting.of_family(METHODS)
    found = fitting.chains(at_most(MAX_SPEC_LEN), f"vLLM verifies, of up to {MAX_SPEC_LEN} tokens")
    model = None if method in ("suffix", "ngram") else fitting.module if method == "mtp" else fitting.model
    made = export(found.runs, version=version, method=method, model=model, parallel=fitting.family in PARALLEL)
    return made.after(*fitting.notes(found))


PREFIX = "vllm:spec_decode_num_"
PER_POSITION = PREFIX + "accepted_tokens_per_pos"
BY_LENGTH = "acceptance_histogram_by_draft_length"
LATENCY = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
PROMPTS_TOO = "the time of a step contains the prompts that are read in the same step"
_GENERATED = r"Avg generation throughput:\s*([\d.]+) tokens/s.*?Running:\s*(\d+) reqs"


def from_metrics(metrics: Metrics, min_trials: int) -> Statistics:
    """Statistics of `/metrics`: counters since the server started, or between two scrapes, summed over label sets."""
    wanted = [PREFIX + name for name in ("drafts", "draft_tokens", "accepted_tokens")]
    for name in (*wanted, PER_POSITION):
        metrics.require(name)
    drafts, drafted, accepted = map(metrics.counter, wanted)
    found = metrics.by_position(PER_POSITION)
    agree(wanted[2], accepted, sum(found), f"the sum of {PER_POSITION}", 0)
    ranks = len(metrics.samples[wanted[0]])
    said = [f"the counters of {ranks} label sets are summed"] if ranks > 1 else []
    return statistics.from_positions(statistics.from_prefix_counts(found, drafts), drafts, drafted, min_trials, said)


def observe_metrics(metrics: Metrics, min_trials: int) -> Observed:
    """A model in a scrape, or in the difference of two."""
    seconds, drafts = metrics.mean(*LATENCY), metrics.total(PREFIX + "drafts")
    if seconds is None and not drafts:
        metrics.require(*(f"{name}_count" for name in LATENCY))
        raise nothing_decoded()
    steps = metrics.total("vllm:iteration_tokens_total_count")
    waits = max(metrics.total(f"{name}_count") for name in LATENCY)
    batch = waits / steps if steps and waits else metrics.gauge("vllm:num_requests_running") or None
    prompt = metrics.mean("vllm:request_prompt_tokens")
    cached = metrics.quotient("vllm:prefix_cache_hits", "vllm:prefix_cache_queries") or 0.0
    seen = Observed(
        batch=None if batch is None else max(batch, 1.0),
        step_seconds=seconds,
        prompt_tokens=None if prompt is None else prompt * (1 - cached),
        output_tokens=metrics.mean("vllm:request_generation_tokens"),
        notes=(PROMPTS_TOO,) if seconds is not None else (),
    )
    return _with_drafts(seen, from_metrics(metrics, min_trials)) if drafts else seen


def _with_drafts(seen: Observed, found: Statistics) -> Observed:
    """What was observed, with the statistics of the drafts."""
    depth = found.positions if found.positions is not None or found.nodes is None else round(found.nodes)
    notes = (*seen.notes, *found.assumed)
    return replace(seen, statistics=found, tau=found.tau or 1.0, nodes=found.nodes, depth=depth, notes=notes)


def _figures(line: str) -> dict[str, Any]:
    """The figures of a log line `SpecDecoding metrics`, None for counts that it does not have."""
    tau = re.search(r"Mean acceptance length:\s*([\d.]+)", line)
    rates = re.search(r"Per-position acceptance rate:\s*\[?([\d.]+(?:,\s*[\d.]+)*)", line)
    if tau is None or rates is None:
        wanted = ["Mean acceptance length"] if tau is None else ["Per-position acceptance rate"]
        raise missing("the line", wanted, re.findall(r"([A-Za-z][\w -]*):", line))
    totals = {name: re.search(rf"\b{name}:\s*(\d+) tokens", line) for name in ("Accepted", "Drafted")}
    accepted, drafted = (int(found[1]) if found else None for found in totals.values())
    shares = list(map(float, rates[1].split(",")))
    return {"tau": float(tau[1]), "rates": shares, "accepted": accepted, "drafted": drafted}


def from_log(text: str, min_trials: int = 100) -> Statistics:
    """Statistics of a log: the sum over all lines `SpecDecoding metrics: ...`. Other lines are ignored.

    A line covers the time since the previous such line. A line with the mean nan, because nothing was drafted, adds
    nothing. A line adds only to the positions that it has.
    """
    require_whole(text, "(?:Accepted|Drafted):", r"(?:Accepted|Drafted): \d+ tokens")
    every = [line for line in text.splitlines() if "Mean acceptance length" in line]
    lines = [line for line in every if "Mean acceptance length: nan" not in line]
    if every and not lines:
        raise InputError("nothing was drafted yet: the mean acceptance length is nan in every line")
    read = [_figures(line) for line in lines or [text[-10_000:]]]
    if len(read) == 1:
        return statistics.from_rounded(**read[0], min_trials=min_trials)
    rows, drafts, drafted = [], 0, 0
    for i, line in enumerate(read, 1):
        if line["accepted"] is None or line["drafted"] is None:
            raise InputError(f"line {i} of {len(read)} must have Accepted and Drafted to be added: pass it alone")
        statistics.from_rounded(**line, min_trials=1)
        cycles, counted = statistics.counts_behind(**line)
        rows.append(statistics.from_prefix_counts(counted, cycles))
        drafts, drafted = drafts + cycles, drafted + line["drafted"]
    said = [f"{len(read)} lines of the log are added", RECOVERED]
    return statistics.from_positions(statistics.added(rows), drafts, drafted, min_trials, said)


def observe_log(text: str, min_trials: int) -> Observed:
    """A server by its lines of throughput, and by its lines `SpecDecoding metrics` if there are any."""
    lines = [(float(rate), int(running)) for rate, running in re.findall(_GENERATED, text)]
    busy = [(rate, running) for rate, running in lines if rate > 0 and running > 0]
    found = from_log(text, min_trials) if "Mean acceptance length" in text else None
    if not busy and found is None:
        raise nothing_decoded()
    seen, tau = Observed(), 1.0 if found is None else found.tau or 1.0
    if busy:
        rate, running = (sum(row[i] for row in busy) for i in (0, 1))
        notes = ("the batch is the mean number of running requests in the lines", PROMPTS_TOO)
        seen = Observed(batch=running / len(busy), step_seconds=running * tau / rate, notes=notes)
    return seen if found is None else _with_drafts(seen, found)


def from_request_metrics(data: Sequence[Mapping[str, Any]], min_trials: int = 100) -> Statistics:
    """Statistics of a server's responses, which are added.

    The server must run with `--per-request-spec-decode-metrics summary`. Each item of `data` is a response, its
    `metrics`, or the value under `speculative_decoding` in these. Items without drafted tokens are left out. Drafts of
    different lengths do not bias the rates if the response has histograms by draft length. One request has few cycles:
    lower `min_trials`, and expect wide intervals.
    """
    read = [_request(item) for item in data]
    used = [row for row in read if row[1]] or read[:1]
    if not used:
        raise InputError("data must hold at least one response, got none: pass the server's responses")
    counted, drafts, drafted = zip(*used, strict=True)
    said = [f"{len(used)} responses are added"] if len(used) > 1 else []
    total = None if None in drafted else sum(drafted)
    return statistics.from_positions(statistics.added(counted), sum(drafts), total, min_trials, said)


def _request(data: Mapping[str, Any]) -> tuple[Counted, int, int | None]:
    """(counts by position, cycles, drafted tokens) of one response, after a check that they agree."""
    inner = mapping("data", data).get("metrics") or data
    inner = mapping("metrics", inner).get("speculative_decoding") or inner
    histogram = inner.get("acceptance_histogram")
    if histogram is None:
        raise missing("the response", ["acceptance_histogram"], inner)
    histogram = counts("acceptance_histogram", histogram)
    drafts, accepted = sum(histogram), sum(j * n for j, n in enumerate(histogram))
    by_length = _by_length(inner)
    counted = statistics.from_histograms(by_length or {len(histogram) - 1: histogram})
    agree(f"the sum of {BY_LENGTH}", sum(counted[0]), accepted, "acceptance_histogram", 0)
    for name, expected in (("num_spec_steps", drafts), ("num_accepted_draft_tokens", accepted)):
        if inner.get(name) is not None:
            agree(name, count(name, inner[name]), expected, "acceptance_histogram", 0)
    if by_length:
        return counted, drafts, sum(k * sum(row) for k, row in by_length.items())
    drafted = inner.get("num_draft_tokens")
    return counted, drafts, None if drafted is None else count("num_draft_tokens", drafted)


def _by_length(inner: Mapping[str, Any]) -> dict[int, list[int]]:
    """The histograms by draft length; empty if the response has none."""
    made: dict[int, list[int]] = {}
    for k, row in mapping(BY_LENGTH, inner.get(BY_LENGTH) or {}).items():
        made[int(k) if is_digits(k) else -1] = counts(f"{BY_LENGTH}[{k}]", row)
        if not is_digits(k) or len(row) != int(k) + 1:
            raise InputError(
                f"{BY_LENGTH} must have k + 1 counts for each draft length k, got {len(row)} under {k!r:.40}"
            )
    return made


def _served(entry: Entry, conditions: Conditions) -> Run:
    """The run of a result of `vllm bench serve`. See `serving_run` for batch, context and seconds.

    The draft is a chain of as many tokens as the server drafted per cycle. Other engines may have been measured, so the
    engine is named only if the backend is vllm, or if vLLM's counters are there.
    """
    found, backend = _counted(entry), entry.text("backend") or entry.text("endpoint_type") or ""
    engine = "vllm" if found is not None or backend.startswith("vllm") else None
    return served_run(entry, found, conditions, model=entry.text("model_id"), engine=engine)


def _counted(entry: Entry) -> Conditions | None:
    """Tau and the chain length by the server's counters; None if it has not speculated."""
    if not entry.has("spec_decode_acceptance_length"):
        return None
    tau = entry.number("spec_decode_acceptance_length", least=1)
    if not entry.has("spec_decode_num_drafts") or not entry.has("spec_decode_draft_tokens"):
        return Conditions(tau)
    drafts, drafted = entry.count("spec_decode_num_drafts", least=1), entry.count("spec_decode_draft_tokens", least=1)
    return Conditions(tau, draft_length(drafted / drafts))


ENGINE = Engine(
    name="vllm",
    title="vLLM",
    versions=VERSIONS,
    exporter=_fitted,
    readers={
        "vllm-metrics": Reader(from_metrics, observe_metrics, scraped=True),
        "vllm-log": Reader(from_log, observe_log),
        "vllm-response": Reader(lambda text, least: from_request_metrics(json_values(text), least)),
    },
    benchmarks={
        "vllm-serve": BenchmarkFormat(
            ("model_id", "mean_tpot_ms", "total_output_tokens"), _served, CONDITIONS, (ASSUMED,)
        )
    },
)
