"""Formats of weights and of KV caches by name, such as `q4_k_m`."""

from __future__ import annotations

from dataclasses import replace

from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown
from spectheory.hardware.design import Design
from spectheory.hardware.gguf_types import BYTES_PER_WEIGHT
from spectheory.hardware.packing import Formats, Packing, Rule, formats_of, is_linear
from spectheory.hardware.shape import Weights

PACKINGS = {
    "fp8": Packing(8, None, 1, 32, "fp8"),
    "fp8-block": Packing(8, 128, 128, 32, "fp8"),
    "int8": Packing(8, None, 1, 16),
    "w8a8": Packing(8, None, 1, 16, "int8"),
    "int4": Packing(4, 128, scale_bits=16),
    "w4a16": Packing(4, 128, scale_bits=16),
    "int4g32": Packing(4, 32, scale_bits=32),
    "awq": Packing(4, 128, scale_bits=20),
    "gptq": Packing(4, 128, scale_bits=20),
    "nvfp4": Packing(4, 16, scale_bits=8, arithmetic="fp4"),
    "mxfp4": Packing(4, 32, scale_bits=8),
    "nf4": Packing(4, 64, scale_bits=8 + 32 / 256),
}
"""Packings of the matrices by name."""
_WITH_HEAD = {"nvfp4-lm-head": "nvfp4"}
"""Formats that pack the output head too, as TensorRT Edge-LLM does with `lm_head_quantization`."""
_MLX = {"4bit": Packing(4, 64, scale_bits=32), "8bit": Packing(8, 64, scale_bits=32)}
_GGUF = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k")
_PLAIN = {"bf16": 2.0, "f16": 2.0, "fp16": 2.0, "f32": 4.0, "fp32": 4.0}
_KV_BYTES = {
    "bf16": 2.0,
    "f16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "int8": 1.0,
    "q8_0": BYTES_PER_WEIGHT["Q8_0"],
    "q4_0": BYTES_PER_WEIGHT["Q4_0"],
    "nvfp4": 4.5 / 8,
}


def quantisations() -> tuple[str, ...]:
    """The names that `named_formats` knows."""
    return (*_PLAIN, *PACKINGS, *_WITH_HEAD, *_MLX, *_GGUF)


def kv_bytes_of(name: str) -> float:
    """Bytes of a number in the KV cache, by the name of its format.

    Raises:
        InputError: there is no such format; the message lists similar names.
    """
    if name.lower() not in _KV_BYTES:
        raise InputError(unknown("format of the KV cache", name, _KV_BYTES))
    return _KV_BYTES[name.lower()]


def named_formats(design: Design, name: str, kv_bytes_per_value: float) -> Formats:
    """The formats of `design` with its weights packed as `name` says.

    Embeddings, routers and norms stay in 16 bits. The output head does too, except in `nvfp4-lm-head`, in the formats
    of llama.cpp, which store it with 6 bits (with 8 in `q8_0`), pack the embeddings, and mix types as `llama-quantize`
    does, and in the ones of MLX (`4bit`, `8bit`), which pack all matrices with a scale and a bias for 64 weights.

    Raises:
        InputError: there is no such quantisation; the message lists similar names.
    """
    name = name.lower()
    if name in _PLAIN:
        size = _PLAIN[name]
        arithmetic, known = "fp32" if size == 4 else "bf16", name.replace("fp", "f")
        return Formats(size, size, size, size, kv_bytes_per_value, arithmetic, known)
    if name in _GGUF:
        found = formats_of(design, _llama_cpp(design, name), 4.0, kv_bytes_per_value)
        return replace(found, weight_format=name.removesuffix("_m").removesuffix("_s"))  # the type of most matrices
    packing = PACKINGS.get(_WITH_HEAD.get(name, name)) or _MLX.get(name)
    if packing is None:
        raise InputError(unknown("quantisation", name, quantisations()))
    packed = ["matrix", "expert"]
    packed += ["head", "borrowed"] if name in _WITH_HEAD or name in _MLX else []
    packed += ["lookup"] if name in _MLX else []
    found = formats_of(design, lambda one: packing if one.use in packed else None, 2.0, kv_bytes_per_value)
    return replace(found, weight_format=name)


def _llama_cpp(design: Design, name: str) -> Rule:
    """The types that `llama-quantize` gives to tensors, without an importance matrix.

    Source: llama.cpp, src/llama-quant.cpp, llama_tensor_get_type.
    """
    base, _, mix = (name, "", "") if name[3:] != "k_s" and name[3:] != "k_m" else name.rpartition("_")
    usual, layers = base.upper(), len(design.layers)
    large = design.fields.model_type == "llama" and layers == 80

    def kind(one: Weights) -> str | None:
        if one.use in ("head", "borrowed"):
            return "Q8_0" if usual == "Q8_0" else "Q6_K"
        if one.use == "lookup":
            return usual
        return _matrix_type(one, usual, mix, layers, large) if is_linear(one) else None

    def rule(one: Weights) -> Packing | None:
        found = kind(one)
        return None if found is None else Packing(8 * BYTES_PER_WEIGHT[found])

    return rule


def _matrix_type(one: Weights, usual: str, mix: str, layers: int, large: bool) -> str:
    index = int(one.name.split("layers.")[1].split(".")[0]) if "layers." in one.name else 0
    last = one.name.rpartition(".")[2]
    if last == "v_proj":
        if mix == "m" and _more_bits(index, layers):
            return "Q6_K"
        if (mix == "s" and usual == "Q4_K" and index < 4) or (large and usual == "Q4_K"):
            return "Q5_K"
    if last == "down_proj":
        if mix == "m" and _more_bits(index, layers):
            return "Q6_K"
        if mix == "s" and usual == "Q4_K" and index < layers // 8:
            return "Q5_K"
    return usual


def _more_bits(index: int, layers: int) -> bool:
    return index < layers // 8 or index >= 7 * layers // 8 or (index - layers // 8) % 3 == 2
