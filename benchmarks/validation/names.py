"""The models and GPUs that published measurements name, as the library finds them."""

from __future__ import annotations

from functools import cache

from spectheory import InputError, ModelConfig
from spectheory.hardware.gpus import gpu
from spectheory.hardware.hf_config import AT_ONCE
from spectheory.hardware.models import draft_of as library_draft_of
from spectheory.hardware.models import draft_of_kind, kind_and_target, kind_named, model

gpu_of = cache(gpu)
HEAD_PACKED = ("trt-edge",)
"""Engines whose models in NVFP4 have packed output heads: the public rows of TensorRT Edge-LLM are measured with
`lm_head_quantization` (its issue 95), and with heads in 16 bits they would need more than the peak bandwidth."""


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


def drafts_at_once(name: str) -> bool:
    """Whether the draft of this name drafts all depths in one forward."""
    return _kind(name) in (*AT_ONCE, "pard")


def _kind(name: str) -> str | None:
    found = kind_and_target(name)
    return found[0] if found else kind_named(name)


def _stored(name: str, engine: str) -> str:
    """The name, with the format that the engine gives to NVFP4."""
    return f"{name}-lm-head" if engine in HEAD_PACKED and name.endswith("nvfp4") else name
