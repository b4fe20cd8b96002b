"""The points that SGLang's bench_speculative.py measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.files import from_json
from spectheory.engines.report_values import FLOAT, agree, count, mapping, missing, number, within
from spectheory.planning.runnable import Envelope

ROUNDED = 0.0005 + FLOAT
"""Tolerance for `acc_length` of the benchmark, which has three decimals."""
BENCH = ("batch_size", "steps", "topk", "num_draft_tokens", "acc_length", "step_time", "speed")


@dataclass(frozen=True)
class BenchPoint:
    """One configuration that SGLang's `bench_speculative.py` measured.

    Attributes:
        batch_size: number of requests in flight.
        envelope: limits of the verified tree; None for plain decoding.
        tau: tokens per target call.
        step_seconds: seconds per cycle, the 20th percentile.
        tokens_per_second: tokens per second of one request.
    """

    batch_size: int
    envelope: Envelope | None
    tau: float
    step_seconds: float
    tokens_per_second: float


def from_bench_speculative(text: str) -> list[BenchPoint]:
    """The points that scripts/playground/bench_speculative.py measured, from its output of one JSON object per line.

    SGLang counts the root as a draft token. With topk 1 it always verifies steps + 1 tokens.
    """
    points = []
    for i, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                value = from_json(line)
            except ValueError as error:
                raise InputError(f"line {i} must be JSON, got {line!r:.40} ({error})") from None
            points.append(point(mapping(f"line {i}", value), f"line {i}"))
    if not points:
        raise InputError(
            "text must hold at least one measured point, as one JSON object per line, got none: pass the output of "
            "bench_speculative.py"
        )
    return points


def point(record: Mapping[str, Any], where: str) -> BenchPoint:
    """The point that a line of the output has, after a check that its figures agree; `where` is for error messages."""
    for name in BENCH:
        if name not in record:
            raise missing(where, [name], record)
    batch, steps, topk, tokens = (count(f"{where}: {name}", record[name]) for name in BENCH[:4])
    tau, seconds, speed = (number(f"{where}: {name}", record[name]) for name in BENCH[4:])
    if batch < 1 or seconds <= 0 or tau < 1:
        raise InputError(f"{where} must have batch_size >= 1, step_time > 0, acc_length >= 1, got {dict(record)}")
    rounding = 0.002 + 1e-5 / seconds
    agree(f"{where}: speed", speed, tau / seconds, "acc_length / step_time", rounding * tau / seconds + 1e-3)
    tokens_out = number(f"{where}: completion_tokens", record.get("completion_tokens", 1))
    most = (steps + 1) / (1 - 1 / tokens_out) if steps and tokens_out > 1 else steps + 1
    within(f"{where}: acc_length", tau, 1, most, f"steps={steps}, one token from the prefill of each answer,", ROUNDED)
    try:
        envelope = None if steps == 0 else Envelope(steps, topk, steps if topk == 1 else tokens - 1)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return BenchPoint(batch, envelope, tau, seconds, speed)
