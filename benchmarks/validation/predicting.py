"""The seconds of a row: what it timed, as steps of the library's `TimedSetup`, with the costs of its engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from benchmarks.validation.names import draft_of, drafts_at_once, gpu_of, target_of
from benchmarks.validation.rows import Placement, Row
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.placement import Parallel
from spectheory.hardware.runs import Step
from spectheory.hardware.timed_setup import TimedSetup

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
    setup, cycle = setup_of(row), cycle_of(row)
    return Seconds(setup.seconds(plain_of(row), costs), None if cycle is None else setup.seconds(cycle, costs))


def setup_of(row: Row) -> TimedSetup:
    """The models and GPUs of `row`.

    Raises:
        InputError: a model or the GPU is unknown, or a number is out of range.
    """
    return _setup(row.gpu, row.gpus, row.placement, row.target, row.draft)


@cache
def _setup(gpu: str, gpus: int, placement: Placement, target: str, draft: str) -> TimedSetup:
    drafting = "at once" if drafts_at_once(draft) else "levels"
    return TimedSetup(
        gpu_of(gpu), target_of(target), draft_of(draft, target), gpus, PARALLEL[placement], None, drafting
    )


def plain_of(row: Row) -> Step:
    """The plain step that `row` timed or compares with, or its forward."""
    if row.kind == "forward":
        return Step("forward", row.batch, row.context, row.nodes)
    return Step("plain", row.batch, row.context, prefill_tokens=prefill_tokens(row))


def cycle_of(row: Row) -> Step | None:
    """The speculative step of `row`; None if it has none."""
    if row.kind in ("plain", "forward"):
        return None
    return Step("speculative", row.batch, row.context, row.nodes + 1, row.depth)


def prefill_tokens(row: Row) -> float:
    """Tokens of the prompts that are read beside a plain step of a server in steady state."""
    if row.kind != "plain" or row.batch == 1 or row.context <= PROMPT:
        return 0.0
    return row.batch * PROMPT / max(2 * (row.context - PROMPT), 100)
