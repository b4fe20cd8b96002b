"""The seconds of a row by the roofline of the library, without fitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.validation.names import draft_of, drafts_at_once, gpu_of, target_of
from benchmarks.validation.rows import Row
from spectheory import Latency, Tree
from spectheory.hardware.roofline import DERATES, TOKENS, Roofline

WIDEST = 10
"""Nodes of a level that the draft expands, in the envelopes of EAGLE-2 and EAGLE-3."""


@dataclass(frozen=True)
class Seconds:
    """Predicted seconds of a plain step (or of a forward), and of a speculative step; None without one."""

    plain: float
    cycle: float | None = None

    def gain(self, tau: float) -> float | None:
        """The predicted speedup if a sequence gets `tau` tokens from a speculative step."""
        return None if self.cycle is None else tau * self.plain / self.cycle


def widths(row: Row) -> list[int]:
    """The number of nodes that the draft reads at each drafted level."""
    if drafts_at_once(row.draft):
        return [row.depth]
    if row.kind == "chain":
        return [1] * row.depth
    return [1] + [min(WIDEST, max(1, row.nodes // row.depth))] * (row.depth - 1)


def shipped(row: Row) -> Seconds:
    """The seconds of `row`. The roofline divides a model by tensor parallelism, whatever its placement is.

    Raises:
        InputError: a model or the GPU is unknown, or a number is out of range.
    """
    target, draft = target_of(row.target), draft_of(row.draft, row.target)
    place = Roofline(gpu_of(row.gpu), gpus=row.gpus, batch=row.batch, context=row.context)
    if row.kind == "forward":
        return Seconds(float(place.forward_seconds(target, [row.nodes])[0]))
    grid = sorted({*TOKENS, row.nodes + 1})
    seconds = place.forward_seconds(target, grid)[None]
    latency = Latency(
        np.array(grid),
        np.array([row.context]),
        seconds,
        np.zeros_like(seconds) if draft is None else place.forward_seconds(draft, grid)[None],
        overhead_seconds=DERATES.step_overhead_seconds,
        level_overhead_seconds=0.0 if draft is None else DERATES.level_overhead_seconds,
        plain_overhead_seconds=DERATES.step_overhead_seconds,
        computed=True,
    )
    plain = latency.plain(row.context)
    if row.kind == "plain":
        return Seconds(plain)
    drafting = sum(latency.draft(width, row.context) for width in widths(row))
    overhead = latency.overhead(Tree.chain(row.depth))
    return Seconds(plain, drafting + latency.target(row.nodes + 1, row.context) + overhead)
