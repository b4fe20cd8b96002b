"""The formats that a config.json states, by its quantization_config."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown
from spectheory.hardware.design import Design
from spectheory.hardware.named_formats import PACKINGS
from spectheory.hardware.packing import Arithmetic, Formats, Packing, Rule, formats_of, is_linear
from spectheory.hardware.shape import Weights


@dataclass(frozen=True)
class Section:
    """The quantization_config of a checkpoint, or a part of it, with methods that read and check its fields."""

    values: Mapping[str, Any]
    where: str

    def choice(self, name: str, choices: Iterable[Any], default: Any = None) -> Any:
        """The value of a field that must be one of `choices`, else `default`."""
        value, known = self.values.get(name, default), list(choices)
        if isinstance(value, bool) != isinstance(known[0], bool) or value not in known:
            raise InputError(f"{self.where} must have {name} of {_listed(known)}, got {name}={value!r:.40}")
        return value

    def group(self, name: str = "group_size", default: int | None = None) -> int | None:
        """The number of inputs that share a scale; None for all of them, which is written as -1, 0 or null."""
        value = self.values.get(name, default)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value in (-1, 0)):
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 10**6:
            raise InputError(f"{self.where} must have a whole number as {name}, or -1, got {name}={value!r:.40}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """The value of a field that is true or false, else `default`."""
        return self.choice(name, (True, False), default)

    def patterns(self, *names: str) -> tuple[str, ...]:
        """The texts in the lists of these fields."""
        found = []
        for name in names:
            value = self.values.get(name)
            if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
                raise InputError(f"{self.where} must have a list of names as {name}, got {name}={value!r:.40}")
            found += value or []
        return tuple(found)

    def part(self, name: str) -> Section | None:
        """The object in a field; None if the config lacks it."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise InputError(f"{self.where} must have an object as {name}, got {name}={value!r:.40}")
        return None if value is None else Section(value, self.where)


def _listed(choices: list[Any]) -> str:
    return ", ".join(map(str, choices[:-1])) + f" or {choices[-1]}" if len(choices) > 1 else str(choices[0])


DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}


def config_formats(design: Design) -> Formats:
    """The formats that the config of `design` states.

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
    if not isinstance(config, Mapping):
        raise InputError(f"{where}: quantization_config must be an object, got {config!r:.40}")
    method = str(config.get("quant_method")).replace("_", "-").removeprefix("intel/")
    if method not in _READERS:
        raise InputError(
            f"{where}: quant_method must be one of {', '.join(_READERS)}, got {config.get('quant_method')!r:.40}"
        )
    rule = _READERS[method](Section(config, f"{where}: quantization_config of {method}"))
    return formats_of(design, rule, size, _kv_bytes(config, size))


def _kv_bytes(config: Mapping[str, Any], size: float) -> float:
    """Bytes of a number in the KV cache, by the quantisation of a checkpoint that states one."""
    scheme = config.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") in (4, 8):
        return scheme["num_bits"] / 8
    algorithm = config.get("kv_cache_quant_algo")
    return {"FP8": 1.0, "INT8": 1.0, "NVFP4": 4.5 / 8}.get(algorithm, size) if isinstance(algorithm, str) else size


def _linear(packing: Packing) -> Rule:
    return lambda one: packing if is_linear(one) else None


def _fp8(config: Section) -> Rule:
    block = config.values.get("weight_block_size") or [128, 128]
    whole = isinstance(block, list) and all(type(n) is int and 0 < n < 2**31 for n in block)
    if not whole or len(block) != 2:
        raise InputError(f"{config.where} must have two whole numbers above 0 as weight_block_size, got {block!r:.40}")
    skipped = config.patterns("modules_to_not_convert", "ignored_layers")
    return except_for(_linear(Packing(8, block[1], block[0], 32, "fp8")), skipped, config.where)


def _fbgemm(config: Section) -> Rule:
    skipped = config.patterns("modules_to_not_convert")
    return except_for(_linear(Packing(8, None, 1, 32, "fp8")), skipped, config.where)


def _mxfp4(config: Section) -> Rule:
    """Only experts are packed."""
    skipped = config.patterns("modules_to_not_convert")
    return except_for(lambda one: PACKINGS["mxfp4"] if one.use == "expert" else None, skipped, config.where)


def _grouped(config: Section) -> Rule:
    """AWQ and GPTQ: a 16-bit scale and a zero point for each group."""
    bits, group = config.choice("bits", (2, 3, 4, 8)), config.group()
    packing = Packing(bits, group, scale_bits=16 + bits)
    with_head = config.flag("lm_head", False)
    dynamic = config.part("dynamic")
    skipped = [name[2:] for name in dynamic.values if name.startswith("-:")] if dynamic else []
    if dynamic and len(skipped) < len(dynamic.values):
        raise InputError(f"{config.where} has modules of different bits in 'dynamic': only modules left out are known")
    rule: Rule = lambda one: packing if is_linear(one) or (with_head and one.use == "head") else None  # noqa: E731
    names = [f"re:{name}" for name in skipped]
    return except_for(rule, (*names, *config.patterns("modules_to_not_convert")), config.where)


def _auto_round(config: Section) -> Rule:
    """AutoRound: like GPTQ, and single modules can have other bits."""
    bits, group = config.choice("bits", (2, 3, 4, 8)), config.group()
    extra = config.part("extra_config")
    others: dict[str, int] = {}
    for name, module in (extra.values if extra else {}).items():
        own = Section(module, f"{config.where}, {name}") if isinstance(module, Mapping) else config
        others[name] = own.choice("bits", (2, 3, 4, 8, 16, 32), bits)
    scale = 16 + (0 if config.flag("sym", True) else bits)

    def rule(one: Weights) -> Packing | None:
        if not is_linear(one) and one.use != "head":
            return None
        named = next((n for p, n in others.items() if matches(p, names_of(one), config.where)), None)
        chosen = named or (bits if is_linear(one) else 16)
        return None if chosen >= 16 else Packing(chosen, group, scale_bits=scale)

    return rule


def _bitsandbytes(config: Section) -> Rule:
    """NF4 or FP4 with a scale for each 64 weights, or int8 with a scale for each output."""
    four = config.flag("load_in_4bit", config.flag("_load_in_4bit", False))
    eight = config.flag("load_in_8bit", config.flag("_load_in_8bit", False))
    if four == eight:
        raise InputError(
            f"{config.where} must have either load_in_4bit or load_in_8bit as true, got {four} and {eight}"
        )
    skipped = config.patterns("llm_int8_skip_modules", "modules_to_not_convert")
    double = config.flag("bnb_4bit_use_double_quant", False)
    nf4 = PACKINGS["nf4"] if double else Packing(4, 64, scale_bits=32)
    return except_for(_linear(nf4 if four else Packing(8, None, 1, 32, "int8")), skipped, config.where)


_MODELOPT = {
    "FP8": Packing(8, None, None, 32, "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": PACKINGS["fp8"],
    "FP8_PB_WO": replace(PACKINGS["fp8-block"], arithmetic="bf16"),
    "FP8_PB_REAL": PACKINGS["fp8-block"],
    "NVFP4": PACKINGS["nvfp4"],
    "NVFP4_AWQ": PACKINGS["nvfp4"],
    "W4A16_AWQ": PACKINGS["int4"],
    "W4A8_AWQ": replace(PACKINGS["int4"], arithmetic="fp8"),
    "W8A8_SQ_PER_CHANNEL": PACKINGS["w8a8"],
    "W8A16": PACKINGS["int8"],
    "MXFP4": PACKINGS["mxfp4"],
    "MXFP8": Packing(8, 32, scale_bits=8, arithmetic="fp8"),
}


def _modelopt(config: Section) -> Rule:
    """NVIDIA Model Optimizer: one algorithm for all modules, or one for each module that it names."""
    skipped = config.patterns("exclude_modules", "ignore")
    if config.values.get("quant_algo") is None and config.values.get("config_groups") is not None:
        return _compressed_tensors(config)
    algorithm = config.choice("quant_algo", (*_MODELOPT, "MIXED_PRECISION"))
    if algorithm != "MIXED_PRECISION":
        return except_for(_linear(_MODELOPT[algorithm]), skipped, config.where)
    named = config.part("quantized_layers")
    chosen = {
        name: _MODELOPT[Section(layer, f"{config.where}, {name}").choice("quant_algo", _MODELOPT)]
        for name, layer in (named.values if named else {}).items()
        if isinstance(layer, Mapping)
    }
    return except_for(lambda one: next((chosen[n] for n in names_of(one) if n in chosen), None), skipped, config.where)


def _compressed_tensors(config: Section) -> Rule:
    """Compressed-tensors: groups of modules, each with the bits and scales of its weights and activations."""
    groups = config.part("config_groups")
    if groups is None:
        raise InputError(f"{config.where} must have an object as config_groups, got None")
    known: list[tuple[tuple[str, ...], Packing | None]] = []
    for name in groups.values:
        group = groups.part(name)
        if group is not None:
            known.append((group.patterns("targets"), _group_packing(group)))

    def rule(one: Weights) -> Packing | None:
        if not is_linear(one) and one.use != "head":
            return None
        for targets, packing in known:
            if any(target == "Linear" or matches(target, names_of(one), config.where) for target in targets):
                return packing
        return None

    return except_for(rule, config.patterns("ignore"), config.where)


def _group_packing(group: Section) -> Packing | None:
    weights = group.part("weights")
    if weights is None:
        return None
    bits, kind = weights.choice("num_bits", (2, 3, 4, 6, 8)), weights.choice("type", ("int", "float"), "int")
    strategies = ("tensor", "channel", "group", "tensor_group", "block")
    default = "group" if weights.values.get("group_size") else "channel"
    strategy = default if weights.values.get("strategy") is None else weights.choice("strategy", strategies)
    arithmetic = _activations(group.part("input_activations"))
    if strategy in ("tensor", "channel"):
        return Packing(bits, None, None if strategy == "tensor" else 1, 32, arithmetic)
    if strategy == "block":
        block = weights.values.get("block_structure") or [128, 128]
        sizes = [Section({"block": n}, weights.where).group("block") for n in block] if isinstance(block, list) else []
        if len(sizes) != 2:
            raise InputError(
                f"{weights.where} must have two whole numbers as block_structure, such as [128, 128], each from 1 to "
                f"1,000,000, or -1, 0 or null for the whole dimension, got {block!r:.40}"
            )
        return Packing(bits, sizes[1], sizes[0], 32, arithmetic)
    size = weights.group()
    scale = 8 if kind == "float" and bits == 4 else 16
    zero = 0 if weights.flag("symmetric", True) else bits
    return Packing(bits, size, scale_bits=scale + zero, arithmetic=arithmetic)


def _activations(section: Section | None) -> Arithmetic:
    """The arithmetic of the multiplications, by the format of the activations."""
    if section is None:
        return "bf16"
    bits, kind = section.choice("num_bits", (4, 8, 16)), section.choice("type", ("int", "float"), "int")
    known: dict[tuple[int, str], Arithmetic] = {(4, "float"): "fp4", (8, "float"): "fp8", (8, "int"): "int8"}
    return known.get((bits, kind), "bf16")


_READERS: dict[str, Callable[[Section], Rule]] = {
    "fp8": _fp8,
    "mxfp4": _mxfp4,
    "awq": _grouped,
    "gptq": _grouped,
    "auto-round": _auto_round,
    "bitsandbytes": _bitsandbytes,
    "fbgemm-fp8": _fbgemm,
    "modelopt": _modelopt,
    "modelopt-fp4": _modelopt,
    "compressed-tensors": _compressed_tensors,
}


_FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
}
"""Names of matrices that some checkpoints store as one, with the names of their parts."""


def names_of(weights: Weights) -> set[str]:
    """The names that checkpoints give to a module: as a whole model, and as a part of a multimodal one."""
    name = weights.name
    return {name, f"language_model.{name}", name.replace("model.", "model.language_model.", 1)}


def matches(pattern: str, names: set[str], where: str) -> bool:
    """Whether a pattern of a config means one of `names`: a regular expression after `re:`, a glob, or a part."""
    for fused, parts in _FUSED.items():
        if fused in pattern:
            names = {
                f"{head}.{fused if last in parts else last}" for head, _, last in (n.rpartition(".") for n in names)
            }
    if pattern.startswith("re:"):
        try:
            return any(re.match(pattern[3:], name) for name in names)
        except re.error as error:
            raise InputError(
                f"{where} has the pattern {pattern!r:.80}, which is not a regular expression: {error}"
            ) from None
    if "*" in pattern:
        return any(fnmatchcase(name, pattern) for name in names)
    dotted = f".{pattern.strip('.')}."
    return any(dotted in f".{name}." for name in names)


def except_for(rule: Rule, patterns: Iterable[str], where: str) -> Rule:
    """`rule` for weights that none of `patterns` means."""
    kept = tuple(patterns)

    def excepted(weights: Weights) -> Packing | None:
        packing = rule(weights)
        names = names_of(weights) if packing else set()
        return None if any(matches(pattern, names, where) for pattern in kept) else packing

    return excepted
