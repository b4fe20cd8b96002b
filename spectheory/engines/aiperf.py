"""AIPerf, a load generator for any engine: its files `profile_export_aiperf.json` and `profile_export.jsonl`.

The fields are from https://github.com/ai-dynamo/aiperf: docs/tutorials/working-with-profile-exports.md (stored commits
e51cbbaf and db4f6397), docs/tutorials/spec-decode-metrics.md (08c43bef), docs/metrics-reference.md and
src/aiperf/common/models/export_models.py (26240f9e), read 2026-11-22.

The summary has a dictionary of unit, avg and percentiles for each metric. `inter_token_latency` is the mean over
requests of (latency - time to first token) / (output tokens - 1), `inter_chunk_latency` the time between two chunks of
a stream. `spec_decode_token_weighted_acceptance_length` is 1 + accepted draft tokens / verified steps; AIPerf has it,
and the totals of drafted tokens and of steps, if a vLLM server sends them with each response. The records have one
request per line, with `spec_decode_acceptance` at export level records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spectheory.core.errors import InputError
from spectheory.engines.benchmark_file import AS_WRITTEN, BenchmarkFile, BenchmarkFormat, BenchmarkRuns, Entry, each
from spectheory.engines.engine import Engine
from spectheory.engines.serving_run import ASSUMED, CONDITIONS, Served, Speculation, draft_length, mean_context
from spectheory.hardware.runs import Conditions, Run

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
"""Seconds in AIPerf's units of time."""


def _summary(entry: Entry, conditions: Conditions) -> Run:
    """The run of `profile_export_aiperf.json`. See `serving_run` for batch, context and seconds.

    The GPU is named if all GPUs that AIPerf observed are alike. Their number is not taken, because it is that of the
    machine.
    """
    served = Served(
        entry.where,
        token_seconds=_seconds(entry, "inter_token_latency"),
        requests_per_second=_metric(entry, "request_throughput"),
        input_tokens=_metric(entry, "input_sequence_length"),
        output_tokens=_metric(entry, "output_sequence_length"),
        chunk_seconds=_seconds(entry, "inter_chunk_latency") if entry.has("inter_chunk_latency") else None,
    )
    return served.run(_speculation(entry), conditions, model=_model(entry), gpu=_gpu(entry))


def _metric(entry: Entry, name: str, figure: str = "avg") -> float:
    """The mean of a metric of the summary, or with the figure "value" a metric of a request."""
    if not entry.inside(name).data:
        return entry.positive(name)
    return Entry(f"{entry.where}: {name}", entry.inside(name).data).positive(figure)


def _seconds(entry: Entry, name: str, figure: str = "avg") -> float:
    """As `_metric`, in seconds."""
    found = _metric(entry, name, figure)
    unit = str(entry.inside(name).data.get("unit", "")).lower()
    if unit not in SECONDS:
        raise InputError(f"{entry.where}: the unit of {name} must be one of {', '.join(SECONDS)}, got {unit!r:.40}")
    return found * SECONDS[unit]


def _speculation(entry: Entry) -> Speculation | None:
    """Tau and the chain length of the summary; None if it has no figures of speculation."""
    names = ("spec_decode_token_weighted_acceptance_length", "spec_decode_acceptance_length")
    tau = next((_metric(entry, name) for name in names if entry.has(name)), None)
    if tau is None:
        return None
    totals = ("total_draft_tokens", "total_spec_decode_steps")
    if not all(entry.has(name) for name in totals):
        return Speculation(tau)
    drafted, steps = (_metric(entry, name) for name in totals)
    return Speculation(tau, draft_length(drafted / steps))


def _model(entry: Entry) -> str | None:
    """The model in the configuration, by the names of older and of newer versions."""
    names = entry.inside("input_config", "endpoint").data.get("model_names")
    items = entry.inside("input_config", "models").data.get("items")
    if isinstance(names, list) and len(names) == 1 and isinstance(names[0], str):
        return names[0] or None
    if isinstance(items, list) and len(items) == 1 and isinstance(items[0], Mapping):
        return Entry(entry.where, items[0]).text("name")
    return None


def _gpu(entry: Entry) -> str | None:
    """The GPU by telemetry; None if there is none, or several kinds."""
    places = entry.inside("telemetry_data", "endpoints")
    gpus = [places.inside(place, "gpus") for place in places.data]
    names = {every.inside(gpu).text("gpu_name") for every in gpus for gpu in every.data}
    return names.pop() if len(names) == 1 else None


@dataclass(frozen=True)
class _Request:
    """One completed request: tokens of prompt and answer, seconds per token, and when it began and ended."""

    prompt: float
    steps: float
    token_seconds: float
    begin: float
    end: float


def read_records(file: BenchmarkFile, conditions: Conditions) -> BenchmarkRuns:
    """The run of `profile_export.jsonl`: all its requests as one benchmark.

    Failed and cancelled requests, requests outside the phase `profiling` and answers of one token are not used. Times
    per token and contexts are means over the decoding steps of all requests.
    """
    requests: list[_Request] = []
    ignored: dict[str, str] = {}
    accepted = [0, 0, 0]
    for entry in file.entries:
        reason = _why_not(entry)
        if reason:
            ignored.setdefault(reason, entry.where)
            continue
        requests.append(_request(entry))
        counted = entry.inside("spec_decode_acceptance")
        if counted.data:
            names = ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
            accepted = [total + counted.count(name) for total, name in zip(accepted, names, strict=True)]
    reasons = [f"requests that {reason} are not used; the first is {where}" for reason, where in ignored.items()]
    if not requests:
        raise InputError(f"{file.name} has no run that can be used: {'; '.join(reasons)}")
    run = _of_requests(file.name, requests, accepted, conditions)
    return BenchmarkRuns((run,), tuple(reasons), (ASSUMED,))


def _why_not(entry: Entry) -> str:
    """Why a request is not used; empty if it is."""
    metadata, metrics = entry.inside("metadata"), entry.inside("metrics")
    if entry.has("error") or metadata.data.get("was_cancelled") is True:
        return "failed or were cancelled"
    if metadata.data.get("benchmark_phase", "profiling") != "profiling":
        return "are outside the phase profiling"
    length = metrics.inside("output_sequence_length")
    return "have an answer of one token" if length.has("value") and length.number("value") < 2 else ""


def _request(entry: Entry) -> _Request:
    metadata, metrics = entry.inside("metadata"), entry.inside("metrics")
    begin, end = (metadata.number(name) / 1e9 for name in ("request_start_ns", "request_end_ns"))
    if not begin < end:
        raise InputError(f"{entry.where}: request_end_ns must be after request_start_ns: {AS_WRITTEN}")
    seconds = _seconds(metrics, "inter_token_latency", "value")
    answer, prompt = (_metric(metrics, f"{part}_sequence_length", "value") for part in ("output", "input"))
    return _Request(prompt, answer - 1, seconds, begin, end)


def _of_requests(name: str, requests: list[_Request], accepted: Iterable[int], conditions: Conditions) -> Run:
    """The run of all requests; `accepted` are the sums of steps, accepted and drafted tokens, 0 without speculation."""
    number, steps = len(requests), sum(request.steps for request in requests)
    duration = max(request.end for request in requests) - min(request.begin for request in requests)
    cycles, kept, drafted = accepted
    served = Served(
        name,
        token_seconds=sum(request.steps * request.token_seconds for request in requests) / steps,
        requests_per_second=number / duration,
        input_tokens=sum(request.prompt for request in requests) / number,
        output_tokens=steps / number + 1,
        context=sum(request.steps * mean_context(request.prompt, request.steps) for request in requests) / steps,
    )
    found = Speculation(1 + kept / cycles, draft_length(drafted / cycles)) if cycles else None
    return served.run(found, conditions)


FORMATS = {
    "aiperf-summary": BenchmarkFormat(
        ("inter_token_latency", "request_throughput"), each(_summary, ASSUMED), CONDITIONS
    ),
    "aiperf-records": BenchmarkFormat(("metadata", "metrics"), read_records, CONDITIONS),
}
"""The formats of AIPerf's files, by name."""

ENGINE = Engine(name="aiperf", title="AIPerf", benchmarks=FORMATS)
