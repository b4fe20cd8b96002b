"""vLLM: its statistics from Prometheus, the log and single responses, files of `vllm bench serve`, and its config.

The names are from vllm/v1/spec_decode/metrics.py, vllm/v1/metrics/{stats,loggers}.py, vllm/benchmarks/serve.py (stored
commit 009e6d4a) and https://docs.vllm.ai/en/v0.32.0/features/speculative_decoding/, read 2026-11-21 to 2026-11-23.
Metrics of single requests came with 0.29 (PR #48915). llama.cpp uses the same definitions.

`vllm:inter_token_latency_seconds` is observed once for each request and step, not for each token, so its mean is the
time of a cycle. `vllm:iteration_tokens_total` is observed once for each step, so its count is the number of steps. In
files of `vllm bench serve`, `mean_tpot_ms` is the mean over requests of (latency - time to first token) / (output
tokens - 1), and `mean_itl_ms` the mean time between two chunks of a stream, of tau tokens with speculation. The fields
`spec_decode_*` are differences of the server's counters, and are there only if the server has speculated.

Speculative config: versions 0.24 to 0.33, from vllm/config/speculative.py at 002e77c1 and v1/worker/gpu_model_runner.py
of the distributions of 0.24.0, 0.25.0, 0.32.0 and 0.33.0, read 2026-11-21 to 2026-11-28. `MAX_SPEC_LEN` in
v1/sample/rejection_sampler.py is 128 in all of these. vLLM does not count the root. Trees were removed by PR #42121, so
only chains are exported. Versions before 0.24 run one length at all batch sizes: PR #32374 (merged 2026-06-14) has
`num_speculative_tokens_per_batch_size`. Its entries have three numbers up to 0.33.0 (v1/spec_decode/dynamic/utils.py);
contexts are the open PRs #48944, with five numbers, and #54801.
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
from spectheory.engines.engine import Engine, Export, Observed, Reader, nothing_decoded
from spectheory.engines.prometheus import Metrics
from spectheory.engines.report_values import agree, count, counts, json_values, mapping, missing, require_whole
from spectheory.engines.serving_run import ASSUMED, CONDITIONS, served_run
from spectheory.engines.statistics import Counts, Line, Statistics
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
VERSIONS = {f"0.{minor}": minor >= 25 for minor in range(24, 34)}
"""The versions, and whether they have the method dspark (PR #46995)."""


def export(
    ranges: Sequence[ChainRange],
    *,
    version: str,
    method: str,
    model: str | None,
    parallel: bool = False,
    draw: bool = False,
) -> Export:
    """Chains by batch size as `--speculative-config`, with vLLM's name of the method; some methods need no `model`.

    `parallel` is whether one forward of an EAGLE-3 head or of a draft model drafts all tokens (P-EAGLE, PARD), `draw`
    whether drafts are drawn where requests are sampled; by default vLLM drafts the most probable tokens.
    """
    key = ENGINE.release(version)
    ranges = checked_ranges(ranges)
    if method == "dspark" and not VERSIONS[key]:
        raise InputError(f"method 'dspark' needs vLLM 0.25 or newer, got {key}")
    config: dict[str, Any] = {"method": method} | ({} if model is None else {"model": model})
    if parallel:
        config["parallel_drafting"] = True
    if draw:
        config["draft_sample_method"] = "probabilistic"
    longest = max(item.length for item in ranges)
    if longest > MAX_SPEC_LEN:
        raise InputError(f"length must be at most MAX_SPEC_LEN={MAX_SPEC_LEN} of vLLM's sampler, got {longest}")
    config["num_speculative_tokens"] = longest
    notes = [f"vLLM drafts {longest} token{'s' * (longest > 1)} at every batch size"]
    if len(ranges) > 1:
        table = [[item.first_batch, item.last_batch, item.length] for item in ranges]
        config["num_speculative_tokens_per_batch_size"] = table
        notes = [
            "Model Runner V2 ignored the table and drafted the longest chain (#51510, fix #57053 open in 2026-09)",
            "vLLM ignores the table when data parallel > 1; full CUDA graphs need Model Runner V2",
        ]
        if any(item.length == 0 for item in ranges):
            notes[0] += "; a user saw throughput collapse where the table turns to 0 (#49548, open)"
    if method == "ngram":
        notes.append("add prompt_lookup_max, and prompt_lookup_min, to the config")
    return Export("vLLM", key, ("--speculative-config", json.dumps(config)), {}, tuple(notes))


def _fitted(fitting: Fitting, version: str) -> Export:
    """The fastest chains by batch size. If some are off, the note that a runner drafts all the same comes first."""
    method = fitting.of_family(METHODS)
    found = fitting.chains(at_most(MAX_SPEC_LEN), f"vLLM verifies, of up to {MAX_SPEC_LEN} tokens")
    parallel = fitting.family in PARALLEL
    draw = bool(fitting.schedule.acceptance.provenance.temperature) and method not in ("ngram", "suffix", "medusa")
    made = export(found.runs, version=version, method=method, model=fitting.loaded, parallel=parallel, draw=draw)
    on = all(item.length for item in found.runs)
    return made.after(*fitting.notes(found)) if on else replace(made, notes=made.notes + fitting.notes(found))


PREFIX = "vllm:spec_decode_num_"
PER_POSITION = PREFIX + "accepted_tokens_per_pos"
GENERATED, FIRST = "vllm:generation_tokens", "vllm:time_to_first_token_seconds_count"
"""The counters of all tokens and of first tokens, which come with the prompts."""
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
    made = statistics.from_positions((found, [drafts, *found[:-1]]), drafts, drafted, min_trials, said)
    return statistics.of_steps(made, round(metrics.total(GENERATED) - metrics.total(FIRST)) - accepted)


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
    found = from_metrics(metrics, min_trials) if drafts else None
    prompts_too = (PROMPTS_TOO,) if seconds is not None else ()
    return Observed(
        statistics=found,
        batch=None if batch is None else max(batch, 1.0),
        step_seconds=seconds,
        prompt_tokens=None if prompt is None else prompt * (1 - cached),
        output_tokens=metrics.mean("vllm:request_generation_tokens"),
        notes=prompts_too if found is None else (*prompts_too, *found.assumed),
    )


def _figures(line: str) -> Line:
    """The figures of a log line `SpecDecoding metrics`, None for counts that it does not have."""
    tau = re.search(r"Mean acceptance length:\s*([\d.]+)", line)
    rates = re.search(r"Per-position acceptance rate:\s*\[?([\d.]+(?:,\s*[\d.]+)*)", line)
    if tau is None or rates is None:
        wanted = ["Mean acceptance length"] if tau is None else ["Per-position acceptance rate"]
        raise missing("the line", wanted, re.findall(r"([A-Za-z][\w -]*):", line))
    totals = (re.search(rf"\b{name}:\s*(\d+) tokens", line) for name in ("Accepted", "Drafted"))
    accepted, drafted = (int(found[1]) if found else None for found in totals)
    return Line(float(tau[1]), list(map(float, rates[1].split(","))), accepted, drafted)


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
    return statistics.from_lines([_figures(line) for line in lines or [text[-10_000:]]], min_trials)


def observe_log(text: str, min_trials: int) -> Observed:
    """A server by its lines of throughput, and by its lines `SpecDecoding metrics` if there are any."""
    lines = [(float(rate), int(running)) for rate, running in re.findall(_GENERATED, text)]
    busy = [(rate, running) for rate, running in lines if rate > 0 and running > 0]
    found = from_log(text, min_trials) if "Mean acceptance length" in text else None
    if not busy and found is None:
        raise nothing_decoded()
    seen = Observed(found, notes=() if found is None else found.assumed)
    if not busy:
        return seen
    rate, running = (sum(row[i] for row in busy) for i in (0, 1))
    notes = ("the batch is the mean number of running requests in the lines", PROMPTS_TOO, *seen.notes)
    return replace(seen, batch=running / len(busy), step_seconds=running * seen.tau / rate, notes=notes)


def from_request_metrics(data: Sequence[Mapping[str, Any]], min_trials: int = 100) -> Statistics:
    """Statistics of a server's responses, which are added.

    The server must run with `--per-request-spec-decode-metrics summary`. Each item of `data` is a response, its
    `metrics`, or the value under `speculative_decoding` in these. Items without drafted tokens are left out. Drafts of
    different lengths do not bias the rates if the response has histograms by draft length. One request has few cycles:
    lower `min_trials`, and expect wide intervals.
    """
    read = [_request(item) for item in data]
    return statistics.added([part for part in read if part.drafts], "responses", min_trials)


def _request(data: Mapping[str, Any]) -> Counts:
    inner = mapping("metrics", data.get("metrics") or data)
    inner = mapping("speculative_decoding", inner.get("speculative_decoding") or inner)
    histogram = inner.get("acceptance_histogram")
    if histogram is None:
        raise missing("the response", ["acceptance_histogram"], inner)
    histogram = counts("acceptance_histogram", histogram)
    drafts, accepted = sum(histogram), sum(j * n for j, n in enumerate(histogram))
    by_length: dict[int, list[int]] = {}
    for k, row in mapping(BY_LENGTH, inner.get(BY_LENGTH) or {}).items():
        values = counts(f"{BY_LENGTH}[{k}]", row)
        if not is_digits(k) or len(values) != int(k) + 1:
            raise InputError(f"{BY_LENGTH} must have k + 1 counts for drafts of k, got {len(values)} under {k!r:.40}")
        by_length[int(k)] = values
    drafted = inner.get("num_draft_tokens")
    counted = statistics.from_histograms(by_length or {len(histogram) - 1: histogram})
    agree(f"the sum of {BY_LENGTH}", sum(counted[0]), accepted, "acceptance_histogram", 0)
    for name, expected in (("num_spec_steps", drafts), ("num_accepted_draft_tokens", accepted)):
        if inner.get(name) is not None:
            agree(name, count(name, inner[name]), expected, "acceptance_histogram", 0)
    if by_length:
        drafted = sum(k * sum(row) for k, row in by_length.items())
    return Counts(drafts, None if drafted is None else count("num_draft_tokens", drafted), accepted, counted)


def _served(entry: Entry, conditions: Conditions) -> Run:
    """The run of a result of `vllm bench serve`. See `serving_run` for batch, context and seconds.

    The draft is a chain of as many tokens as the server drafted per cycle, of which the ends of answers cut some. Other
    engines may have been measured, so the engine is named only if the backend is vllm, or if vLLM's counters are there.
    """
    found, share, backend = None, None, entry.text("backend") or entry.text("endpoint_type") or ""
    if entry.has("spec_decode_acceptance_length"):
        found = Conditions(entry.number("spec_decode_acceptance_length", least=1))
        if entry.has("spec_decode_num_drafts") and entry.has("spec_decode_draft_tokens"):
            names = "spec_decode_draft_tokens", "spec_decode_num_drafts"
            drafted, drafts = (entry.count(name, least=1) for name in names)
            length, kept = round(drafted / drafts), (found.tau or 1) - 1
            found = replace(found, nodes=length if length and abs(drafted / drafts - length) <= 0.1 else None)
            steps = entry.count("total_output_tokens") - entry.count("completed") - drafts * kept
            if drafts < (1 - statistics.FEW) * steps:  # where no n-gram matches, nothing is drafted
                found, share = replace(found, tau=1 + kept * drafts / steps), drafts / steps
    engine = "vllm" if found is not None or backend.startswith("vllm") else None
    return served_run(entry, found, conditions, model=entry.text("model_id"), engine=engine, drafted_share=share)


ENGINE = Engine(
    name="vllm",
    title="vLLM",
    versions=VERSIONS,
    exporter=_fitted,
    readers={
        "vllm-metrics": Reader(from_metrics, observe_metrics, scraped=True),
        "vllm-log": Reader(from_log, observe_log),
        "vllm-response": Reader(
            lambda text, least: from_request_metrics(json_values(text), least), requests=json_values
        ),
    },
    benchmarks={
        "vllm-serve": BenchmarkFormat(
            ("model_id", "mean_tpot_ms", "total_output_tokens"), _served, CONDITIONS, (ASSUMED,)
        )
    },
)
