"""BenchPoint: one point of an engine's benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.planning.runnable import Envelope


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
