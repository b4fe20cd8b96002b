"""The seconds of a row by the roofline of the library, with the costs of its engine."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.validation.names import draft_of, drafts_at_once, gpu_of, target_of
from benchmarks.validation.rows import Placement, Row
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.placement import Parallel
from spectheory.hardware.roofline import Roofline

WIDEST = 10
"""Nodes of a level that the draft expands, in the envelopes of EAGLE-2 and EAGLE-3."""
PROMPT = 300
"""Tokens of a prompt in the plain steps in serving; their `context` is 300 and half the mean output."""
PARALLEL: dict[Placement, Parallel] = {
    "one GPU": "tensor",
    "tensor parallel": "tensor",
    "expert parallel": "expert",
    "layer split": "layers",
}


@dataclass(frozen=True)
class Seconds:
    """Predicted seconds of a plain step (or of a forward), and of a speculative step; None without one."""

    plain: float
    cycle: float | None = None

    def gain(self, tau: float) -> float | None:
        """The predicted speedup if a sequence gets `tau` tokens from a speculative step."""
        return None if self.cycle is None else tau * self.plain / self.cycle


def widths(row: Row) -> list[int]:
    """The number of nodes that the draft reads in each of its forwards."""
    if drafts_at_once(row.draft):
        return [row.depth]
    if row.kind == "chain":
        return [1] * row.depth
    return [1] + [min(WIDEST, max(1, row.nodes // row.depth))] * (row.depth - 1)


def shipped(row: Row) -> Seconds:
    """The seconds of `row` with the costs of its engine in the table of the library.

    Raises:
        InputError: a model or the GPU is unknown, or a number is out of range.
    """
    return predict(row, EngineCosts.of(row.engine_version))


def predict(row: Row, costs: EngineCosts) -> Seconds:
    """The seconds of `row` with these costs.

    Raises:
        InputError: a model or the GPU is unknown, or a number is out of range.
    """
    target, draft = target_of(row.target), draft_of(row.draft, row.target)
    prefill, parallel = prefill_tokens(row), PARALLEL[row.placement]
    place = Roofline(gpu_of(row.gpu), row.gpus, row.batch, row.context, costs, parallel, prefill_tokens=prefill)
    if row.kind == "forward":
        return Seconds(float(place.forward_seconds(target, [row.nodes])[0]))
    one, verified = place.forward_seconds(target, [1, row.nodes + 1])
    overheads, drafting = place.overheads(target, draft), widths(row) if draft is not None else []
    plain = float(one) + overheads.plain_overhead_seconds
    if row.kind == "plain":
        return Seconds(plain)
    cycle = float(verified) + overheads.overhead_seconds + len(drafting) * overheads.level_overhead_seconds
    if row.nodes > row.depth:
        cycle += row.nodes * overheads.tree_mask_seconds
    if draft is not None and drafting:
        kinds = sorted(set(drafting))
        seconds = dict(zip(kinds, place.forward_seconds(draft, kinds), strict=True))
        cycle += float(sum(seconds[width] for width in drafting))
    return Seconds(plain, cycle)


def prefill_tokens(row: Row) -> float:
    """Tokens of the prompts that are read beside a plain step of a server in steady state."""
    if row.kind != "plain" or row.batch == 1 or row.context <= PROMPT:
        return 0.0
    return row.batch * PROMPT / max(2 * (row.context - PROMPT), 100)
