"""`read_trace`: recorded requests from a file, whose format is recognised by its content.

Looked up on 2026-11-22:

- Azure LLM inference traces of 2023 and 2024, CSV: https://github.com/Azure/AzurePublicDataset,
  AzureLLMInferenceDataset2023.md and AzureLLMInferenceDataset2024.md. TIMESTAMP is a date with 100 ns ticks, in the
  files of 2024 with an offset from UTC.
- Mooncake, JSON Lines: https://github.com/kvcache-ai/Mooncake, FAST25-release/traces (commit a2a4b18a). Timestamp in
  milliseconds; `hash_ids` name blocks of the prompt, of which caches of prefixes are not simulated. GenAI-Perf and
  AIPerf replay files of this format.
- `vllm bench serve --save-detailed`, JSON: vllm/benchmarks/serve.py, with `start_times` in seconds.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from simulate.load.requests import Requests
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

LONGEST = 10**9
"""Maximum number of tokens of a prompt or an answer."""
AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE = ("timestamp", "input_length", "output_length")
VLLM = ("start_times", "input_lens", "output_lens")
FORMATS = f"an Azure trace (CSV with {', '.join(AZURE)}), a Mooncake trace (JSON Lines with {', '.join(MOONCAKE)}), or \
the result of `vllm bench serve --save-result --save-detailed` (JSON with {', '.join(VLLM)})"
"""What `read_trace` reads."""

Row = tuple[str, float, int, int]
"""Where a request is in the file, its time of arrival in seconds, and its tokens of prompt and answer."""


def read_trace(path: str | Path, *, first: int | None = None, skip_failed: bool = False) -> Requests:
    """Read recorded requests: their times of arrival and the tokens of prompts and answers.

    Times of a benchmark are when its client sent the requests; with a limited concurrency they depend on the server
    that was measured.

    Args:
        path: the file, in one of `FORMATS`.
        first: read only this many requests from the start of the file; None reads all.
        skip_failed: whether to leave out requests that failed or have no tokens; they are refused otherwise.

    Raises:
        InputError: the file cannot be read, is in no known format, its requests are not in the order of their arrival,
            a number is wrong, or requests failed. The message names the line.
    """
    if first is not None:
        check_whole("first", first, 1)
    path = Path(path)
    kept: list[tuple[float, int, int]] = []
    failed: list[str] = []
    ordered, rows = _rows(path)
    for where, seconds, prompt, output in islice(rows, first):
        if not (prompt and output):
            failed.append(where)
            continue
        if ordered and kept and seconds < kept[-1][0]:
            raise InputError(f"{where} arrives {kept[-1][0] - seconds:g} s before the one above it: sort the file")
        kept.append((seconds, prompt, output))
    if failed and not skip_failed:
        raise InputError(
            f"{path}: {len(failed):,} of {len(kept) + len(failed):,} requests failed or have no tokens, the first at "
            f"{failed[0]}: leave them out with skip_failed=True, in a load with {path},failed=skip"
        )
    if not kept:
        raise InputError(f"{path} has no request to serve: give a file with requests")
    arrivals, prompts, outputs = map(np.array, zip(*sorted(kept, key=lambda row: row[0]), strict=True))
    try:
        return Requests(arrivals - arrivals[0], prompts, outputs)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _rows(path: Path) -> tuple[bool, Iterator[Row]]:
    """Whether the requests of a file are in the order of their arrival, and the requests."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    lines = text.splitlines()
    start = next((line for line in lines if line.strip()), "")
    if set(AZURE) <= {name.strip() for name in start.split(",")}:
        return True, _azure(path, lines)
    entry = _json(start)
    if isinstance(entry, dict) and set(MOONCAKE) <= set(entry):
        return True, _mooncake(path, lines)
    result = _json(text)
    if isinstance(result, dict) and "input_lens" in result:
        return False, _vllm(path, result)
    raise InputError(f"{path} is in no known format: give {FORMATS}")


def _azure(path: Path, lines: list[str]) -> Iterator[Row]:
    for number, row in enumerate(csv.DictReader(lines, skipinitialspace=True), start=2):
        where = f"{path}, line {number}"
        try:
            date = datetime.fromisoformat(str(row["TIMESTAMP"]).strip())
        except ValueError:
            raise InputError(
                f"{where}: TIMESTAMP must be a date such as 2023-11-16 18:17:03.9799600, got {row['TIMESTAMP']!r:.60}"
            ) from None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        yield where, seconds, *(_whole(where, name, row[name]) for name in AZURE[1:])  # type: ignore[misc]


def _mooncake(path: Path, lines: list[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where, entry = f"{path}, line {number}", _json(line)
        if not isinstance(entry, dict) or not set(MOONCAKE) <= set(entry):
            raise InputError(f"{where} must have {', '.join(MOONCAKE)}: the file is damaged or two files were joined")
        milliseconds = _number(where, "timestamp", entry["timestamp"])
        yield where, milliseconds / 1e3, *(_whole(where, name, entry[name]) for name in MOONCAKE[1:])  # type: ignore[misc]


def _vllm(path: Path, result: Mapping[str, Any]) -> Iterator[Row]:
    columns: list[Any] = [result.get(name) for name in VLLM]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise InputError(f"{path} must have equally long lists {', '.join(VLLM)}: run it again as in {FORMATS}")
    errors = result.get("errors")
    if not isinstance(errors, list) or len(errors) != len(columns[0]):
        errors = [""] * len(columns[0])
    for number, (start, prompt, output, error) in enumerate(zip(*columns, errors, strict=True)):
        where = f"{path}, request {number}"
        tokens = 0 if error else _whole(where, "output_lens", output)
        yield where, _number(where, "start_times", start), _whole(where, "input_lens", prompt), tokens


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(where: str, name: str, value: Any) -> float:
    try:
        found = math.nan if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{where}: {name} must be a number, got {value!r:.60}: correct or remove it")
    return found


def _whole(where: str, name: str, value: Any) -> int:
    found = _number(where, name, value)
    if found != int(found) or not 0 <= found <= LONGEST:
        raise InputError(
            f"{where}: {name} must be a whole number from 0 to {LONGEST:,}, got {value!r:.60}: correct or remove it"
        )
    return int(found)
