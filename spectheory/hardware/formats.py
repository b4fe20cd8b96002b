"""Formats of weights and KV caches: by name, such as `q4_k_m`, and by the quantization_config of a checkpoint."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spectheory.core.errors import InputError, unknown
from spectheory.core.files import shipped
from spectheory.hardware.hf_config import Design, Use, Weights

Arithmetic = Literal["fp4", "fp8", "int8", "bf16", "fp32"]
DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}


@dataclass(frozen=True)
class Packing:
    """How the weights of a matrix are stored and multiplied.

    Attributes:
        bits: bits of a weight.
        columns, rows: inputs and outputs that share a scale; None: all of them.
        scale_bits: bits of a scale, with its zero point.
        arithmetic: the number format of the multiplications; `bf16` if the weights are unpacked to 16 bits.
    """

    bits: float
    columns: int | None = None
    rows: int | None = 1
    scale_bits: float = 0.0
    arithmetic: Arithmetic = "bf16"

    def bytes_of(self, weights: Weights) -> float:
        """Bytes of the weights with their scales."""
        scales = weights.rows / (self.rows or weights.rows) * weights.columns / (self.columns or weights.columns)
        return (weights.size * self.bits + scales * self.scale_bits) / 8


@dataclass(frozen=True)
class Formats:
    """Mean bytes per parameter by use, bytes of a number in the KV cache, and the arithmetic of the multiplications."""

    linear_bytes: float
    expert_bytes: float
    other_bytes: float
    lookup_bytes: float
    kv_bytes_per_value: float
    arithmetic: Arithmetic


Rule = Callable[[Weights], Packing | None]
"""The packing of weights; None if they are not packed."""

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
    "nvfp4-lm-head": Packing(4, 16, scale_bits=8, arithmetic="fp4"),
    "4bit": Packing(4, 64, scale_bits=32),
    "8bit": Packing(8, 64, scale_bits=32),
}
"""Packings of the matrices by name. `nvfp4-lm-head` packs the output head too, as TensorRT Edge-LLM does with
`lm_head_quantization`; `4bit` and `8bit` are those of MLX, which packs all matrices."""
_MLX = ("4bit", "8bit")
_TENSORS = {(8, "float"): "fp8", (8, "int"): "w8a8", (4, "float"): "nvfp4", (4, "int"): "w4a16"}
"""Formats of compressed-tensors by the bits and the type of weights."""
_PLAIN = {"bf16": 2.0, "f16": 2.0, "fp16": 2.0, "f32": 4.0, "fp32": 4.0}
_TYPES = {row["type"]: float(row["bits"]) for row in csv.DictReader(shipped("llama_cpp_types.csv").splitlines())}
BITS = {name: bits for name, bits in _TYPES.items() if name.islower()}
"""Mean bits of all weights in formats of llama.cpp that mix types, other than `_LLAMA_CPP`, which are built from their
types: `_TYPES` has the bits of these by their names in capitals."""
_LLAMA_CPP = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4_moe", "q4_k_m", "q5_k_m", "q6_k")
_KV_BYTES = dict.fromkeys(("bf16", "f16", "fp16"), 2.0) | dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "int8"), 1.0)
_KV_BYTES |= {"q8_0": _TYPES["Q8_0"] / 8, "q4_0": _TYPES["Q4_0"] / 8, "nvfp4": 4.5 / 8}


def formats_of(design: Design, rule: Rule, size: float, kv_bytes_per_value: float) -> Formats:
    """Mean bytes by use; weights without a packing have `size` bytes each."""
    totals: Counter[Use] = Counter()
    stored: dict[Use, float] = {}
    votes: Counter[Arithmetic] = Counter()
    for one in design.weights:
        packing = rule(one)
        totals[one.use] += one.size
        stored[one.use] = stored.get(one.use, 0.0) + (packing.bytes_of(one) if packing else one.size * size)
        if one.use in ("matrix", "expert"):
            votes[packing.arithmetic if packing else "fp32" if size == 4 else "bf16"] += one.size

    def mean(*uses: Use) -> float:
        total = sum(totals[use] for use in uses)
        return sum(stored.get(use, 0.0) for use in uses) / total if total else size

    arithmetic = votes.most_common(1)[0][0] if votes else "bf16"
    other = mean("other", "head", "borrowed", "expert other")
    return Formats(mean("matrix"), mean("expert"), other, mean("lookup"), kv_bytes_per_value, arithmetic)


QUANTISATIONS = (*_PLAIN, *PACKINGS, *BITS, *_LLAMA_CPP)
"""The names that `named_formats` knows."""


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
    does (`mxfp4_moe` is `q8_0` but for the experts), and in the ones of MLX (`4bit`, `8bit`), which pack all matrices
    with a scale and a bias for 64 weights. In formats of `BITS`, every weight has the mean bits.

    Raises:
        InputError: there is no such quantisation; the message lists similar names.
    """
    name = name.lower()
    if name in _PLAIN:
        size = _PLAIN[name]
        return Formats(size, size, size, size, kv_bytes_per_value, "fp32" if size == 4 else "bf16")
    if name in _LLAMA_CPP:
        return formats_of(design, _llama_cpp(design, name), 4.0, kv_bytes_per_value)
    packing = Packing(BITS[name]) if name in BITS else PACKINGS.get(name)
    if packing is None:
        raise InputError(unknown("quantisation", name, QUANTISATIONS))
    packed = ["matrix", "expert"]
    packed += ["head", "borrowed"] if name == "nvfp4-lm-head" or name in (*_MLX, *BITS) else []
    packed += ["lookup"] if name in (*_MLX, *BITS) else []
    return formats_of(design, lambda one: packing if one.use in packed else None, 2.0, kv_bytes_per_value)


def _llama_cpp(design: Design, name: str) -> Rule:
    """The types that `llama-quantize` gives to tensors, without an importance matrix.

    Of the value and down projections, `_m` stores half in Q6_K: those of the first, of the last and of every third
    other layer. Source: llama.cpp, src/llama-quant.cpp, llama_tensor_get_type.
    """
    if name == "mxfp4_moe":
        others = _llama_cpp(design, "q8_0")
        return lambda one: PACKINGS["mxfp4"] if one.use == "expert" else others(one)
    mixed, usual = name.endswith("_m"), name.removesuffix("_m").upper()
    if mixed and not any(one.name for one in design.weights):
        raise InputError(
            f"{name} mixes types, and the matrices of {design.fields.where} are not known: give a format such as q4_0"
        )
    large = design.fields.values.get("model_type") == "llama" and design.shape.layers == 80 and usual == "Q4_K"

    def rule(one: Weights) -> Packing | None:
        if one.use in ("head", "borrowed"):
            return Packing(_TYPES["Q8_0" if usual == "Q8_0" else "Q6_K"])
        if one.use not in ("matrix", "expert", "lookup"):
            return None
        if mixed and one.name:
            other = "Q5_K" if large and one.name == "v_proj" else usual
            return Packing((_TYPES["Q6_K"] + _TYPES[other]) / 2)
        return Packing(_TYPES[usual])

    return rule


def config_formats(design: Design) -> Formats:
    """The formats that the config of `design` states: its dtype, and its quantization_config.

    A checkpoint is taken to be in the named format that is nearest: groups of AWQ and GPTQ have 128 weights, and all
    matrices of the layers are packed. Read are fp8, mxfp4, AWQ and GPTQ in 4 bits, compressed-tensors with one format,
    and FP8 and NVFP4 of NVIDIA Model Optimizer. For other checkpoints, name the format after the model.

    Raises:
        InputError: the dtype or the quantisation is unknown.
    """
    fields = design.fields
    where, config = fields.where, fields.values.get("quantization_config", fields.values.get("compression_config"))
    dtype = str(fields.values.get("dtype") or fields.values.get("torch_dtype") or "bfloat16").removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise InputError(f"{where}: {unknown('dtype', dtype, DTYPE_BYTES)}")
    size = DTYPE_BYTES[dtype]
    if config is None:
        return Formats(size, size, size, size, size, "fp32" if size == 4 else "bf16")
    method = config.get("quant_method") if isinstance(config, Mapping) else None
    try:
        packing = PACKINGS[_nearest(str(method).replace("_", "-"), config)]
        scheme = config.get("kv_cache_scheme")
        kv_bytes = size if scheme is None else {4: 0.5, 8: 1.0}[scheme["num_bits"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{where}: quantization_config of {method!r:.40} is not known ({error!r:.80}): remove it from the config "
            "and name the format of the weights, such as fp8 or awq"
        ) from error
    uses = ("expert",) if method == "mxfp4" or "self_attn" in str(config.get("ignore")) else ("matrix", "expert")
    return formats_of(design, lambda one: packing if one.use in uses else None, size, kv_bytes)


def _nearest(method: str, config: Mapping[str, Any]) -> str:
    """The named format of a checkpoint."""
    if method == "compressed-tensors":
        (group,) = config["config_groups"].values()
        weights = group["weights"]
        if weights["num_bits"] == 8 and not group.get("input_activations"):
            return "int8"
        return _TENSORS[weights["num_bits"], weights.get("type", "int")]
    if method == "modelopt":
        return {"FP8": "fp8", "NVFP4": "nvfp4"}[config["quant_algo"]]
    return {("awq", 4): "awq", ("gptq", 4): "gptq", ("fp8", 8): "fp8-block", ("mxfp4", 8): "mxfp4"}[
        method, config.get("bits", 8)
    ]
