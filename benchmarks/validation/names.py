"""The models and GPUs that published measurements name: the library's, and those of this file that it does not ship.

A quantised model is named by its model and its format: `llama-3.1-8b q4_0`, `qwen3-8b-nvfp4`. A draft head that the
library does not ship is derived from its target: `eagle1-llama-2-7b`, `eagle3-qwen3-8b`, `mtp-deepseek-v3`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from spectheory import Gpu, InputError, ModelConfig
from spectheory.hardware.gpus import gpu as library_gpu
from spectheory.hardware.gpus import gpu_names
from spectheory.hardware.models import model as library_model
from spectheory.hardware.shipped_models import model_names


@dataclass(frozen=True)
class Format:
    """How a quantised model is stored.

    Attributes:
        bytes_per_weight: bytes of a packed weight, its scales included.
        head_bytes: bytes per parameter of the output head and everything that is not packed.
        packed: whether a kernel unpacks the weights into 16 bit before it multiplies.
        fp8: whether the multiplications are in fp8.
    """

    bytes_per_weight: float
    head_bytes: float = 2.0
    packed: bool = True
    fp8: bool = False


FORMATS = {
    "fp8": Format(1.0, packed=False, fp8=True),
    "int8": Format(1.0, 1.0),
    "w8a8": Format(1.0, packed=False, fp8=True),
    "q8_0": Format(1.0625, 1.0625),
    "int4g32": Format(0.5625, 0.5625),
    "int4": Format(0.53125),
    "awq": Format(0.53125),
    "gptq": Format(0.53125),
    "w4a16": Format(0.53125),
    "nvfp4": Format(0.5625, packed=False, fp8=True),
    "mxfp4": Format(0.53125),
    "q4_0": Format(0.5625, 0.8203),
    "q4_k_m": Format(0.606, 0.8203),
    "q5_k_m": Format(0.71, 0.8203),
    "q6_k": Format(0.8203, 0.8203),
    "nf4": Format(0.5625),
    "4bit": Format(0.5625),
    "8bit": Format(1.0625),
    "bf16": Format(2.0, packed=False),
    "fp16": Format(2.0, packed=False),
    "f16": Format(2.0, packed=False),
}
"""Bytes by the definition of each format; Q6_K stores the output head of llama.cpp's 4-bit and 5-bit files."""

_LLAMA: dict[str, object] = {"model_type": "llama", "tie_word_embeddings": False}
CONFIGS: dict[str, dict[str, object]] = {
    "llama-2-13b": _LLAMA
    | {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40}
    | {"num_key_value_heads": 40, "vocab_size": 32000},
    "vicuna-33b": _LLAMA
    | {"hidden_size": 6656, "intermediate_size": 17920, "num_hidden_layers": 60, "num_attention_heads": 52}
    | {"num_key_value_heads": 52, "vocab_size": 32000},
    "tinyllama-1.1b": _LLAMA
    | {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32}
    | {"num_key_value_heads": 4, "vocab_size": 32000},
    "llama-68m": _LLAMA
    | {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 2, "num_attention_heads": 12}
    | {"num_key_value_heads": 12, "vocab_size": 32000},
    "llama-3.1-405b": _LLAMA
    | {"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128}
    | {"num_key_value_heads": 8, "vocab_size": 128256},
    "qwen3-235b-a22b": _LLAMA
    | {"model_type": "qwen3_moe"}
    | {"hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94}
    | {"num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128}
    | {"num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936},
}
"""Sizes of models that the library does not ship, from the config.json of their repositories."""

HEADS = {
    **dict.fromkeys(("eagle1", "eagle2", "eagle"), "eagle1"),
    "eagle3": "eagle3",
    **dict.fromkeys(("mtp", "nextn"), "mtp"),
    **dict.fromkeys(("p-eagle", "peagle", "dflash", "dspark", "medusa"), "parallel"),
}
"""Kinds of draft heads by the first word of their names. A parallel head drafts all depths in one forward; its size is
taken to be that of an EAGLE-3 head."""

ALIASES = {
    "vicuna-7b": "llama-2-7b",
    "vicuna-13b": "llama-2-13b",
    "llama-3-8b": "llama-3.1-8b",
    "llama-3-70b": "llama-3.1-70b",
    "llama-3.3-70b": "llama-3.1-70b",
    "deepseek-r1": "deepseek-v3",
}
"""Models of the same sizes."""


def _gpu(name: str, gigabytes: float, gb_a_second: float, bf16: float, fp8: float | None, source: str) -> Gpu:
    return Gpu(name, name, gigabytes * 1e9, gb_a_second * 1e9, bf16 * 1e12, fp8 and fp8 * 1e12, (source,))


GPUS = {
    "h20": _gpu("h20", 96, 4000, 148, 296, "NVIDIA H20 datasheet"),
    "l20": _gpu("l20", 48, 864, 119.5, 239, "NVIDIA L20 datasheet"),
    "thor": _gpu("thor", 128, 273, 258.5, 517, "Jetson Thor datasheet: 2,070 TFLOPS in sparse FP4"),
}
"""GPUs that the table of the library lacks."""


@cache
def gpu_of(name: str) -> Gpu:
    """The GPU of this name.

    Raises:
        InputError: neither the library nor this file has it.
    """
    return GPUS[name] if name not in gpu_names() and name in GPUS else library_gpu(name)


@cache
def format_of(name: str) -> tuple[str, Format | None]:
    """The model's name without its format, and the format; None for 16 bit and for formats in the library's config."""
    found = re.fullmatch(rf"(.+?)[ -]({'|'.join(FORMATS)})", name)
    return (found[1], FORMATS[found[2]]) if found else (name, None)


@cache
def target_of(name: str) -> ModelConfig:
    """The target of this name, with the bytes of its format.

    Raises:
        InputError: neither the library nor this file has a model of this name.
    """
    base, stored = format_of(name)
    model = _whole_model(ALIASES.get(base, base))
    if stored is None:
        return model
    packed, other = stored.bytes_per_weight, stored.head_bytes
    arithmetic = "fp8" if stored.fp8 else model.arithmetic
    return replace(model, name=name, linear_bytes=packed, expert_bytes=packed, other_bytes=other, arithmetic=arithmetic)


def drafts_at_once(name: str) -> bool:
    """Whether the draft of this name drafts all depths in one forward."""
    return any(HEADS[word] == "parallel" for word in HEADS if name.startswith(word + "-"))


@cache
def draft_of(name: str, target: str) -> ModelConfig | None:
    """The draft of this name for `target`, None if there is no draft model (n-gram, suffix).

    Raises:
        InputError: neither the library nor this file has a model of this name, and it does not name a head that can be
            derived.
    """
    if name in ("none", "", "ngram", "n-gram", "prompt lookup", "suffix"):
        return None
    base, stored = format_of(name)
    if base in model_names() and stored is None:
        return library_model(base)
    head = re.fullmatch(rf"(?:{re.escape(format_of(target)[0])}-)?({'|'.join(HEADS)})(-.*)?", base)
    if head is None:
        return target_of(name)
    whole = target_of(format_of(target)[0])
    kind = HEADS[head[1]]
    found = (_mtp if kind == "mtp" else _eagle1 if kind == "eagle1" else _eagle3)(whole, name)
    if stored is None:
        return found
    return replace(found, linear_bytes=stored.bytes_per_weight, arithmetic="fp8" if stored.fp8 else found.arithmetic)


def _whole_model(name: str) -> ModelConfig:
    if name not in model_names() and name in CONFIGS:
        return ModelConfig.from_hf(CONFIGS[name], name=name)
    if "/" in name or "\\" in name or name.endswith(".json"):
        raise InputError(f"model {name!r} must be a name, not a path")
    return library_model(name)


def _eagle1(target: ModelConfig, name: str) -> ModelConfig:
    """One layer of the target, a matrix that fuses token and feature, and the target's output head."""
    hidden, vocabulary = _sizes(target)
    attention, width = _layer(target)
    linear = attention + 3 * hidden * width + 2 * hidden * hidden
    return _head(target, name, linear, vocabulary * hidden)


def _eagle3(target: ModelConfig, name: str) -> ModelConfig:
    """One layer that reads token and feature, a matrix that fuses three features, and an output head of 32,000."""
    hidden, _ = _sizes(target)
    attention, width = _layer(target)
    cache = target.shape.caches[0]
    twice = cache.flops // 4 + cache.values
    linear = attention + twice * hidden + 3 * hidden * width + 3 * hidden * hidden
    return _head(target, name, linear, 32_000 * hidden)


def _mtp(target: ModelConfig, name: str) -> ModelConfig:
    """One layer of the target with its experts, a matrix that fuses token and feature, and the target's output head."""
    hidden, vocabulary = _sizes(target)
    if not target.shape.moe_layers:
        return _eagle1(target, name)
    shape = target.shape
    attention, _ = _layer(target)
    return replace(
        target,
        name=name,
        shape=replace(
            shape,
            layers=1,
            caches=(replace(shape.caches[0], layers=1),),
            moe_layers=1,
            linear_parameters=attention + 2 * hidden * hidden,
            other_parameters=vocabulary * hidden,
            lookup_parameters=0,
        ),
    )


def _head(target: ModelConfig, name: str, linear: int, other: int) -> ModelConfig:
    shape = target.shape
    one = replace(
        shape,
        layers=1,
        linear_parameters=linear,
        other_parameters=other,
        lookup_parameters=0,
        moe_layers=0,
        experts=0,
        experts_per_token=0,
        expert_linear_parameters=0,
        expert_other_parameters=0,
        caches=(replace(shape.caches[0], layers=1, window=None),),
    )
    return replace(target, name=name, shape=one, linear_bytes=2.0, other_bytes=2.0, arithmetic="bf16")


def _sizes(target: ModelConfig) -> tuple[int, int]:
    if target.hidden is None or target.vocabulary is None:
        raise InputError(f"the hidden size and the vocabulary of {target.name} are not known: name a shipped head")
    return target.hidden, target.vocabulary


def _layer(target: ModelConfig) -> tuple[int, int]:
    """Parameters of the attention of one layer, and the width of a dense MLP, three hidden sizes for experts."""
    hidden, _ = _sizes(target)
    shape = target.shape
    attention = hidden * (shape.caches[0].flops // 2 + shape.caches[0].values)
    dense = (shape.linear_parameters // shape.layers - attention) // (3 * hidden)
    return attention, dense if not shape.moe_layers else 3 * hidden
