"""The seconds of a row: what it timed, as steps of the library's `TimedSetup`, with the costs of its engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from benchmarks.validation.rows import WITH_PROMPTS, Row
from spectheory import InputError, ModelConfig
from spectheory.hardware.engine_costs import EngineCosts, Parallel, lookup_share
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import draft_of as library_draft_of
from spectheory.hardware.models import draft_of_kind, kind_and_target, kind_named, model
from spectheory.hardware.runs import Step
from spectheory.hardware.timed_setup import TimedSetup

PROMPT = 300
"""Tokens of a prompt in the plain steps in serving; their `context` is 300 and half the mean output."""
HEAD_PACKED = ("trt-edge",)
"""Engines whose models in NVFP4 have packed output heads: the public rows of TensorRT Edge-LLM are measured with
`lm_head_quantization` (its issue 95), and with heads in 16 bits they would need more than the peak bandwidth."""


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
    plain = setup.seconds(plain_of(row), costs)
    prompts = prompt_seconds(row, plain)
    return Seconds(plain + prompts, None if cycle is None else setup.seconds(cycle, costs) + row.tau * prompts)


def prompt_seconds(row: Row, plain: float) -> float:
    """Seconds of prompts for each token of a sequence, if the rates of `row` count them and do not state their lengths.

    Its plain rate says by how much a step takes longer than `plain` seconds; a cycle takes tau times as much longer.
    """
    return max(0.0, row.batch / row.plain_rate - plain) if row.plain_rate and WITH_PROMPTS in row.note else 0.0


def setup_of(row: Row) -> TimedSetup:
    """The models and GPUs of `row`.

    Raises:
        InputError: a model or the GPU is unknown, or a number is out of range.
    """
    return _setup(row.engine, row.gpu, row.gpus, row.parallel, row.target, row.draft)


@cache
def _setup(engine: str, gpu_name: str, gpus: int, parallel: Parallel, target: str, draft: str) -> TimedSetup:
    models = target_of(target, engine), draft_of(draft, target, engine)
    return TimedSetup(gpu(gpu_name), *models, gpus, parallel)


@cache
def target_of(name: str, engine: str = "") -> ModelConfig:
    """The target of this name, with the bytes of its format in an engine.

    Raises:
        InputError: the library has no model of this name.
    """
    return model(_stored(name, engine))


@cache
def draft_of(name: str, target: str, engine: str = "") -> ModelConfig | None:
    """The draft of this name for `target`, None if the drafter has no model.

    A head of another target, such as `eagle3-nobody`, is taken to have the sizes of a head of its kind for `target`.

    Raises:
        InputError: the library has no model of this name, and it names no kind of head.
    """
    whole, kind = target_of(target, engine), _kind(name)
    try:
        return library_draft_of(whole, _stored(name, engine))
    except InputError:
        if kind is None:
            raise
        return draft_of_kind(whole, kind)


def _kind(name: str) -> str | None:
    found = kind_and_target(name)
    return found[0] if found else kind_named(name)


def _stored(name: str, engine: str) -> str:
    """The name, with the format that the engine gives to NVFP4."""
    return f"{name}-lm-head" if engine in HEAD_PACKED and name.endswith("nvfp4") else name


def plain_of(row: Row) -> Step:
    """The plain step that `row` timed or compares with, or its forward."""
    if row.kind == "forward":
        return Step("forward", row.batch, row.context, row.nodes)
    return Step("plain", row.batch, row.context, prefill_tokens=prefill_tokens(row))


def cycle_of(row: Row) -> Step | None:
    """The speculative step of `row`; None if it has none."""
    if row.kind in ("plain", "forward"):
        return None
    looked_up = row.kind == "chain" and setup_of(row).draft is None  # drafters of trees without a model always draft
    share = lookup_share(row.engine, row.tau, row.depth, row.drafted_share) if looked_up else None
    return Step("speculative", row.batch, row.context, row.nodes + 1, row.depth, drafted_share=share)


def prefill_tokens(row: Row) -> float:
    """Tokens of the prompts that are read beside a plain step of a server in steady state."""
    if row.kind != "plain" or row.batch == 1 or row.context <= PROMPT:
        return 0.0
    return row.batch * PROMPT / max(2 * (row.context - PROMPT), 100)
