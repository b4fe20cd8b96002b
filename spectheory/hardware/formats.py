"""Formats of weights and KV caches: by name, such as `q4_k_m`, and by the quantization_config of a checkpoint."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from spectheory.core.errors import InputError, unknown
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
    """Mean bytes per parameter by use, bytes of a number in the KV cache, and the arithmetic of the multiplications.

    `weight_format` is the name of the format of most matrices, such as `q4_0`; empty if a config.json states it.
    """

    linear_bytes: float
    expert_bytes: float
    other_bytes: float
    lookup_bytes: float
    kv_bytes_per_value: float
    arithmetic: Arithmetic
    weight_format: str = ""


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
_PLAIN = {"bf16": 2.0, "f16": 2.0, "fp16": 2.0, "f32": 4.0, "fp32": 4.0}
BLOCKS = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    26: ("I32", 1, 4),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    39: ("MXFP4", 32, 17),
}
"""The name, the weights in a block and the bytes of a block of each type of llama.cpp, by its number in a GGUF file.

Source: ggml, include/ggml.h, enum ggml_type, and src/ggml-common.h, the structures of the blocks."""
BYTES_PER_WEIGHT = {name: size / weights for name, weights, size in BLOCKS.values()}
"""Bytes of a weight by the name of its type."""
_GGUF = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k")
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


def quantisations() -> tuple[str, ...]:
    """The names that `named_formats` knows."""
    return (*_PLAIN, *PACKINGS, *_GGUF)


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
    packing = PACKINGS.get(name)
    if packing is None:
        raise InputError(unknown("quantisation", name, quantisations()))
    packed = ["matrix", "expert"]
    packed += ["head", "borrowed"] if name == "nvfp4-lm-head" or name in _MLX else []
    packed += ["lookup"] if name in _MLX else []
    found = formats_of(design, lambda one: packing if one.use in packed else None, 2.0, kv_bytes_per_value)
    return replace(found, weight_format=name)


def _llama_cpp(design: Design, name: str) -> Rule:
    """The types that `llama-quantize` gives to tensors, without an importance matrix.

    Source: llama.cpp, src/llama-quant.cpp, llama_tensor_get_type.
    """
    usual, mix = (name[:4].upper(), name[5:]) if name[5:] in ("s", "m") else (name.upper(), "")
    layers, means = design.shape.layers, design.mean_bytes
    if mix and name not in means and not all(one.name for one in design.weights):
        raise InputError(
            f"{name} mixes types by layer, and the sizes of {design.fields.where} are known without layers: give the "
            "GGUF file, or a format such as q4_0"
        )
    large = design.fields.values.get("model_type") == "llama" and layers == 80

    def kind(one: Weights) -> str | None:
        if one.use in ("head", "borrowed"):
            return "Q8_0" if usual == "Q8_0" else "Q6_K"
        if one.use not in ("matrix", "expert"):
            return usual if one.use == "lookup" else None
        index = int(one.name.split("layers.")[1].split(".")[0]) if "layers." in one.name else 0
        last = one.name.rpartition(".")[2]
        early = index < layers // 8
        if last not in ("v_proj", "down_proj"):
            return usual
        if mix == "m" and (early or index >= 7 * layers // 8 or (index - layers // 8) % 3 == 2):
            return "Q6_K"
        few = index < 4 if last == "v_proj" else early
        return "Q5_K" if usual == "Q4_K" and ((mix == "s" and few) or (last == "v_proj" and large)) else usual

    def rule(one: Weights) -> Packing | None:
        found = kind(one)
        mean = means.get(name) if mix and one.use in ("matrix", "expert") else None
        return None if found is None else Packing(8 * (mean or BYTES_PER_WEIGHT[found]))

    return rule


def config_formats(design: Design) -> Formats:
    """The formats that the config of `design` states: its dtype, and its quantization_config.

    Read are fp8, mxfp4, AWQ, GPTQ, bitsandbytes, compressed-tensors with one format, and NVIDIA Model Optimizer with
    one algorithm. For other checkpoints, name the format (`--quant`).

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
    where = f"{where}: quantization_config of {method!r:.40}"
    try:
        packing, skipped = _READERS[str(method).replace("_", "-")](config)
        if packing is None:
            raise ValueError("it does not say how weights are packed")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{where} is not known ({error!r:.80}): known are {', '.join(_READERS)}; or remove it from the config and "
            "name the format of the weights, such as fp8 or awq"
        ) from error
    uses = ("expert",) if method == "mxfp4" else ("matrix", "expert")

    def rule(one: Weights) -> Packing | None:
        return None if one.use not in uses or _is_named(one, skipped, where) else packing

    return formats_of(design, rule, size, _kv_bytes(config, size))


def _kv_bytes(config: Mapping[str, Any], size: float) -> float:
    """Bytes of a number in the KV cache, by the quantisation of a checkpoint that states one."""
    scheme = config.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") in (4, 8):
        return scheme["num_bits"] / 8
    return {"FP8": 1.0, "INT8": 1.0, "NVFP4": 4.5 / 8}.get(str(config.get("kv_cache_quant_algo")), size)


Read = tuple[Packing | None, tuple[str, ...]]
"""A packing, and the names of the modules that are not packed."""


def _skipped(config: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(str(one) for name in names for one in config.get(name) or ())


def _fp8(config: Mapping[str, Any]) -> Read:
    rows, columns = map(int, config.get("weight_block_size") or [128, 128])
    return Packing(8, columns, rows, 32, "fp8"), _skipped(config, "modules_to_not_convert", "ignored_layers")


def _grouped(config: Mapping[str, Any]) -> Read:
    """AWQ and GPTQ: a 16-bit scale and a zero point for each group."""
    bits = {2: 2, 3: 3, 4: 4, 8: 8}[config["bits"]]
    packing = Packing(bits, _group(config.get("group_size")), scale_bits=16 + bits)
    dynamic = tuple(f"re:{name[2:]}" for name in config.get("dynamic") or () if name.startswith("-:"))
    return packing, (*dynamic, *_skipped(config, "modules_to_not_convert"))


def _bitsandbytes(config: Mapping[str, Any]) -> Read:
    """NF4 or FP4 with a scale for each 64 weights, or int8 with a scale for each output."""
    four = config.get("load_in_4bit", config.get("_load_in_4bit", False))
    nf4 = PACKINGS["nf4"] if config.get("bnb_4bit_use_double_quant") else Packing(4, 64, scale_bits=32)
    packing = nf4 if four else Packing(8, None, 1, 32, "int8")
    return packing, _skipped(config, "llm_int8_skip_modules", "modules_to_not_convert")


_MODELOPT = {
    "FP8": Packing(8, None, None, 32, "fp8"),
    "FP8_PB_WO": replace(PACKINGS["fp8-block"], arithmetic="bf16"),
    "NVFP4": PACKINGS["nvfp4"],
    "W4A16_AWQ": PACKINGS["int4"],
    "W4A8_AWQ": replace(PACKINGS["int4"], arithmetic="fp8"),
    "W8A8_SQ_PER_CHANNEL": PACKINGS["w8a8"],
    "MXFP4": PACKINGS["mxfp4"],
    "MXFP8": Packing(8, 32, scale_bits=8, arithmetic="fp8"),
}


def _modelopt(config: Mapping[str, Any]) -> Read:
    """NVIDIA Model Optimizer, with one algorithm for all modules."""
    if config.get("quant_algo") is None:
        return _compressed_tensors(config)
    return _MODELOPT[config["quant_algo"]], _skipped(config, "exclude_modules", "ignore")


def _compressed_tensors(config: Mapping[str, Any]) -> Read:
    """Compressed-tensors: the format of the first group of modules, which the others must share."""
    found = {_group_packing(group) for group in config["config_groups"].values()} - {None}
    if len(found) != 1:
        raise ValueError(f"{len(found)} formats in config_groups")
    return found.pop(), _skipped(config, "ignore")


def _group_packing(group: Mapping[str, Any]) -> Packing | None:
    weights = group.get("weights")
    if weights is None:
        return None
    bits, size = int(weights["num_bits"]), _group(weights.get("group_size"))
    strategy = weights.get("strategy") or ("channel" if size is None else "group")
    activations = group.get("input_activations") or {}
    formats: dict[tuple[Any, Any], Arithmetic] = {(4, "float"): "fp4", (8, "float"): "fp8", (8, "int"): "int8"}
    arithmetic = formats.get((activations.get("num_bits"), activations.get("type", "int")), "bf16")
    if strategy in ("tensor", "channel"):
        return Packing(bits, None, None if strategy == "tensor" else 1, 32, arithmetic)
    if strategy == "block":
        rows, columns = map(int, weights.get("block_structure") or [128, 128])
        return Packing(bits, columns, rows, 32, arithmetic)
    scale = 8 if weights.get("type") == "float" and bits == 4 else 16
    zero = 0 if weights.get("symmetric", True) else bits
    return Packing(bits, size, scale_bits=scale + zero, arithmetic=arithmetic)


def _group(size: Any) -> int | None:
    """The number of inputs that share a scale; None for all of them, which is written as -1, 0 or null."""
    return None if size in (None, -1, 0) else int(size)


_READERS: dict[str, Callable[[Mapping[str, Any]], Read]] = {
    "fp8": _fp8,
    "mxfp4": lambda config: (PACKINGS["mxfp4"], _skipped(config, "modules_to_not_convert")),
    "awq": _grouped,
    "gptq": _grouped,
    "bitsandbytes": _bitsandbytes,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed_tensors,
}
_FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""Names of matrices that some checkpoints store as one, with the names of their parts."""


def _is_named(weights: Weights, patterns: Iterable[str], where: str) -> bool:
    """Whether a pattern means the module: a regular expression after `re:`, a glob, or a part of its name.

    Multimodal models prefix the names of their language model.
    """
    head, _, last = weights.name.rpartition(".")
    for pattern in patterns:
        fused = next((f"{head}.{whole}" for whole, parts in _FUSED.items() if whole in pattern and last in parts), None)
        name = fused or weights.name
        names = {name, f"language_model.{name}", name.replace("model.", "model.language_model.", 1)}
        try:
            if pattern.startswith("re:"):
                meant = any(re.match(pattern[3:], one) for one in names)
            elif "*" in pattern:
                meant = any(fnmatchcase(one, pattern) for one in names)
            else:
                meant = any(f".{pattern.strip('.')}." in f".{one}." for one in names)
        except re.error as error:
            raise InputError(
                f"{where} has the pattern {pattern!r:.80}, which is not a regular expression: {error}"
            ) from None
        if meant:
            return True
    return False
