"""The `Shape` and the `Formats` of a model in a GGUF file, from its tensors and its metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from spectheory.core.errors import InputError
from spectheory.hardware.gguf import Gguf, Tensor
from spectheory.hardware.packing import Formats
from spectheory.hardware.shape import Cache, Shape, Use

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_LOOKUPS = ("token_embd.weight", "position_embd.weight", "per_layer_token_embd.weight")
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "llama4": 4, "olmo2": 4, "exaone4": 4}
"""Architectures in which every n-th layer attends to all tokens, and the other layers to a window. llama.cpp has these
numbers in its source, src/llama-model.cpp, not in the file."""


def shape_and_formats(file: Gguf) -> tuple[Shape, Formats]:
    """How a forward reads the tensors of `file`, and their bytes.

    Raises:
        InputError: metadata of the architecture are missing or impossible.
    """
    layers = file.number("block_count") - file.number("nextn_predict_layers", 0)
    tensors = [one for one in file.tensors if _index(one) is None or (_index(one) or 0) < layers]
    experts = file.number("expert_count", 0)
    sizes: Counter[Use] = Counter()
    stored: Counter[Use] = Counter()
    types: Counter[str] = Counter()
    tied = not any(one.name == "output.weight" for one in tensors)
    for one in tensors:
        use = _use(one, tied=tied)
        sizes[use] += one.size
        stored[use] += one.bytes
        if use in ("matrix", "expert"):
            types[one.type.lower()] += one.size
    sparse = len({_index(one) for one in tensors if _use(one, tied=tied) == "expert"})
    if not sizes["matrix"] or not sizes["head"]:
        raise InputError(f"{file.where} has no layers or no output head: give the GGUF file of a whole language model")
    if sparse and not 0 < file.number("expert_used_count", 0) <= experts:
        raise InputError(
            f"{file.where}: {file.architecture}.expert_used_count must be between 1 and the {experts} experts"
        )
    recurrent = _layers_with(tensors, ".ssm_conv1d.")
    state = _state(file) if recurrent else (0, 0)
    shape = Shape(
        layers=layers,
        linear_parameters=sizes["matrix"],
        other_parameters=sizes["other"] + sizes["head"],
        lookup_parameters=sizes["lookup"],
        kv_heads=1 if _latent(file) else max(1, *file.values("attention.head_count_kv"), 0),
        caches=_caches(file, tensors),
        moe_layers=sparse,
        experts=experts if sparse else 0,
        experts_per_token=file.number("expert_used_count") if sparse else 0,
        expert_linear_parameters=sizes["expert"] // max(sparse * experts, 1),
        state_bytes=len(recurrent) * state[0],
        state_flops=len(recurrent) * state[1],
        latent=_latent(file),
    )

    def mean(*uses: Use) -> float:
        total = sum(sizes[use] for use in uses)
        return sum(stored[use] for use in uses) / total if total else 2.0

    single = all(one.type == "F32" for one in tensors)
    arithmetic = "fp32" if single else "bf16"
    means = mean("matrix"), mean("expert"), mean("other", "head"), mean("lookup")
    return shape, Formats(*means, 2.0, arithmetic, types.most_common(1)[0][0])


def _index(tensor: Tensor) -> int | None:
    """The number of the layer of a tensor; None outside the layers."""
    named = _LAYER.fullmatch(tensor.name)
    return int(named[1]) if named else None


def _use(tensor: Tensor, *, tied: bool) -> Use:
    if tensor.name == "output.weight" or (tied and tensor.name == "token_embd.weight"):
        return "head"
    if tensor.name in _LOOKUPS:
        return "lookup"
    if "_exps." in tensor.name:
        return "expert"
    in_layer = _index(tensor) is not None and len(tensor.shape) > 1
    router = "ffn_gate_inp" in tensor.name or ".ssm_conv1d." in tensor.name
    return "matrix" if in_layer and not router else "other"


def _layers_with(tensors: Iterable[Tensor], part: str) -> set[int]:
    return {index for one in tensors if part in one.name and (index := _index(one)) is not None}


def _latent(file: Gguf) -> bool:
    return bool(file.number("attention.kv_lora_rank", 0))


def _caches(file: Gguf, tensors: Iterable[Tensor]) -> tuple[Cache, ...]:
    """What the layers with attention cache: layers with a window apart from the others."""
    attending = sorted(
        _layers_with(tensors, ".attn_k.") | _layers_with(tensors, ".attn_qkv.") | _layers_with(tensors, ".attn_kv_a_")
    )
    attending = [index for index in attending if index not in _layers_with(tensors, ".ssm_conv1d.")]
    kinds: Counter[tuple[int, int, int | None]] = Counter()
    for index in attending:
        window = _window(file, index)
        kinds[(*_values(file, index, windowed=window is not None), window)] += 1
    return tuple(Cache(count, values, flops, window) for (values, flops, window), count in kinds.items())


def _values(file: Gguf, index: int, *, windowed: bool) -> tuple[int, int]:
    """Numbers that a layer caches for a token, and operations of a token with a cached one."""
    heads = _of_layer(file, "attention.head_count", index)
    if _latent(file):
        latent, rotary = file.number("attention.kv_lora_rank"), file.number("rope.dimension_count")
        return latent + rotary, 2 * heads * (2 * latent + rotary)
    kv_heads = _of_layer(file, "attention.head_count_kv", index, heads)
    usual = file.number("embedding_length") // max(heads, 1)
    suffix = "_swa" if windowed and file.values("attention.key_length_swa") else ""
    key = file.number(f"attention.key_length{suffix}", usual)
    value = file.number(f"attention.value_length{suffix}", usual)
    return kv_heads * (key + value), 2 * heads * (key + value)


def _of_layer(file: Gguf, key: str, index: int, default: int | None = None) -> int:
    """A number that the file states once or for each layer."""
    numbers = file.values(key)
    if len(numbers) <= 1:
        return file.number(key, default)
    if index >= len(numbers):
        raise InputError(
            f"{file.where}: {file.architecture}.{key} must have a number for each layer, got {len(numbers)}"
        )
    return numbers[index]


def _window(file: Gguf, index: int) -> int | None:
    """The number of tokens to which a layer attends; None if it attends to all."""
    width = file.number("attention.sliding_window", file.number("attention.chunk_size", 0))
    if not width:
        return None
    pattern = file.values("attention.sliding_window_pattern")
    if len(pattern) > 1:
        return width if _of_layer(file, "attention.sliding_window_pattern", index) else None
    every = pattern[0] if pattern else _FULL_EVERY.get(file.architecture)
    return width if every and (index + 1) % every else None


def _state(file: Gguf) -> tuple[int, int]:
    """Bytes of the state of a recurrent layer, and operations of a token with it; float32, as llama.cpp keeps it."""
    inner, state = file.number("ssm.inner_size"), file.number("ssm.state_size")
    channels = inner + 2 * file.number("ssm.group_count", 0) * state
    return 4 * (inner * state + channels * (file.number("ssm.conv_kernel") - 1)), 7 * inner * state
