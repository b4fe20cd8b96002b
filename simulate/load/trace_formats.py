"""The formats of traces: which columns or fields each has, and how one request is read from it.

Looked up on 2026-11-22:

- Azure LLM inference traces of 2023 and 2024, CSV: https://github.com/Azure/AzurePublicDataset,
  AzureLLMInferenceDataset2023.md and AzureLLMInferenceDataset2024.md. TIMESTAMP is a date with 100 ns ticks, in the
  files of 2024 with an offset from UTC.
- BurstGPT, CSV: https://github.com/HPMLL/BurstGPT. Timestamp in seconds; `Response tokens` is 0 if a request failed.
  BurstGPT_3 has the columns Session ID and Elapsed time too.
- Mooncake, JSON Lines: https://github.com/kvcache-ai/Mooncake, FAST25-release/traces (commit a2a4b18a). Timestamp in
  milliseconds; `hash_ids` name blocks of the prompt, of which caches of prefixes are not simulated. GenAI-Perf and
  AIPerf replay files of this format.
- AIPerf, JSON Lines `profile_export.jsonl`, https://github.com/ai-dynamo/aiperf. Records are written when requests end.
- `vllm bench serve --save-detailed`, JSON: vllm/benchmarks/serve.py, with `start_times` in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spectheory.core.errors import InputError

LONGEST = 10**9
"""Maximum number of tokens of a prompt or an answer."""


@dataclass(frozen=True)
class Row:
    """One request of a trace.

    Attributes:
        where: the line of the file, or the entry of a list.
        seconds: when the request arrived, from any origin.
        prompt_tokens: tokens of the prompt.
        output_tokens: tokens of the answer.
        failed: why there is no answer; empty if there is one.
        warm_up: whether the request was sent before the measurement.
    """

    where: str
    seconds: float
    prompt_tokens: int
    output_tokens: int
    failed: str = ""
    warm_up: bool = False


@dataclass(frozen=True)
class TraceFormat:
    """One format of a trace.

    Attributes:
        title: its name.
        fields: the columns or fields by which it is recognised; all must be there.
        read: reads one row of a CSV file or one line of JSON, given with the place that it has in the file.
        by_arrival: whether the requests are in the order of their arrival; others are sorted.
        rows: for a file that is one JSON object, its requests.
    """

    title: str
    fields: tuple[str, ...]
    read: Callable[[str, Mapping[str, Any]], Row] | None = None
    by_arrival: bool = True
    rows: Callable[[str, Mapping[str, Any]], Iterator[Row]] | None = None

    def matches(self, names: Any) -> bool:
        """Whether `names` have all fields of the format."""
        return all(field in names for field in self.fields)


def _azure(where: str, row: Mapping[str, Any]) -> Row:
    prompt, output = (_whole(where, name, row[name]) for name in ("ContextTokens", "GeneratedTokens"))
    return Row(where, _date(where, row["TIMESTAMP"]), prompt, output)


def _burst_gpt(where: str, row: Mapping[str, Any]) -> Row:
    prompt, output = (_whole(where, name, row[name]) for name in ("Request tokens", "Response tokens"))
    return Row(where, _number(where, "Timestamp", row["Timestamp"]), prompt, output)


def _mooncake(where: str, row: Mapping[str, Any]) -> Row:
    prompt, output = (_whole(where, name, row[name]) for name in ("input_length", "output_length"))
    return Row(where, _number(where, "timestamp", row["timestamp"]) / 1e3, prompt, output)


def _aiperf(where: str, row: Mapping[str, Any]) -> Row:
    metadata, metrics = _object(where, "metadata", row["metadata"]), _object(where, "metrics", row["metrics"])
    seconds = _number(where, "request_start_ns", metadata.get("request_start_ns")) / 1e9
    warm_up = metadata.get("benchmark_phase", "profiling") != "profiling"
    if row.get("error") or metadata.get("was_cancelled"):
        return Row(where, seconds, 1, 1, "it failed or was cancelled", warm_up)
    prompt, output = (_metric(where, metrics, name) for name in ("input_sequence_length", "output_sequence_length"))
    return Row(where, seconds, prompt, output, "", warm_up)


def _metric(where: str, metrics: Mapping[str, Any], name: str) -> int:
    """The value of a metric of a request: a number, or an object with a value and a unit."""
    found = metrics.get(name)
    return _whole(where, name, found.get("value") if isinstance(found, Mapping) else found)


def _vllm(where: str, result: Mapping[str, Any]) -> Iterator[Row]:
    names = ("start_times", "input_lens", "output_lens")
    missing = [name for name in names if not isinstance(result.get(name), list)]
    if missing:
        raise InputError(
            f"{where} has no {' and no '.join(missing)}: run `vllm bench serve` with --save-result --save-detailed, in "
            "a version that writes start_times"
        )
    lists = [result[name] for name in names]
    errors = result.get("errors") or [""] * len(lists[0])
    if not isinstance(errors, list):
        raise InputError(f"{where}: errors must be a list, got {errors!r:.60}: give the file as it was written")
    if len({len(one) for one in (*lists, errors)}) > 1:
        raise InputError(
            f"{where}: start_times, input_lens, output_lens and errors must be equally long: save it again"
        )
    for number, (start, prompt, output, error) in enumerate(zip(*lists, errors, strict=True)):
        at = f"{where}, request {number}"
        seconds, tokens = _number(at, "start_times", start), _whole(at, "input_lens", prompt)
        yield Row(at, seconds, tokens, _whole(at, "output_lens", output), "it failed" if error else "")


def _object(where: str, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {name} must be an object, got {value!r:.60}: give the file as it was written")
    return value


def _number(where: str, name: str, value: Any) -> float:
    """A finite number, or the number in a text."""
    try:
        found = math.nan if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{where}: {name} must be a number, got {value!r:.60}: correct or remove it")
    return found


def _whole(where: str, name: str, value: Any) -> int:
    """A number of tokens."""
    found = _number(where, name, value)
    if found != int(found) or not 0 <= found <= LONGEST:
        raise InputError(
            f"{where}: {name} must be a whole number from 0 to {LONGEST:,}, got {value!r:.60}: correct or remove it"
        )
    return int(found)


def _date(where: str, text: str) -> float:
    """Seconds since 1970 of a date in ISO 8601, in UTC unless it has an offset."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"{where}: TIMESTAMP must be a date such as 2023-11-16 18:17:03.9799600, got {text!r:.60}: correct or "
            "remove it"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


TABLES = (
    TraceFormat("Azure LLM inference trace", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _azure),
    TraceFormat("BurstGPT", ("Timestamp", "Request tokens", "Response tokens"), _burst_gpt),
)
"""The formats that are CSV with a header."""
LINES = (
    TraceFormat("Mooncake trace", ("timestamp", "input_length", "output_length"), _mooncake),
    TraceFormat("AIPerf records", ("metadata", "metrics"), _aiperf, by_arrival=False),
)
"""The formats that are JSON Lines."""
RESULTS = (TraceFormat("vLLM benchmark", ("input_lens", "output_lens"), rows=_vllm, by_arrival=False),)
"""The formats that are one JSON object."""
EVERY = (*TABLES, *LINES, *RESULTS)
