"""BenchPoint: one point of an engine's benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from spectheory.planning.runnable import Envelope


@dataclass(frozen=True)
class BenchPoint:
    """One measured configuration of `bench_speculative.py`.

    Attributes:
        batch_size: requests in flight.
        envelope: what was verified; None for plain decoding.
        tau: tokens per target call.
        step_seconds: seconds of one cycle, the 20th percentile.
        tokens_per_second: of one request.
    """

    batch_size: int
    envelope: Envelope | None
    tau: float
    step_seconds: float
    tokens_per_second: float
