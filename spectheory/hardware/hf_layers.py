"""`Layer`, the kind of a decoder layer, and the layers that a config.json describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown
from spectheory.hardware.hf_config import MOST_LAYERS, Fields

Mixer = Literal["full", "window", "linear", "none"]
Mlp = Literal["dense", "experts", "none"]
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts")
"""The fields in which configs state the number of routed experts."""
_MIXERS: dict[str, Mixer] = {
    "full_attention": "full",
    "attention": "full",
    "indexed_attention": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "linear_attention": "linear",
}
_BLOCKS: dict[str, tuple[Mixer, Mlp]] = {
    "linear_attention": ("linear", "none"),
    "mamba": ("linear", "none"),
    "full_attention": ("full", "none"),
    "attention": ("full", "none"),
    "mlp": ("none", "dense"),
    "moe": ("none", "experts"),
}
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


@dataclass(frozen=True)
class Layer:
    """One decoder layer.

    Attributes:
        index: its number in the model, from 0.
        mixer: attention to all tokens, attention to a window, a recurrent state without a cache, or none of these.
        mlp: a dense MLP, routed experts, or neither.
        own_cache: whether the layer caches keys and values; False if it reads the cache of an earlier layer.
    """

    index: int
    mixer: Mixer
    mlp: Mlp
    own_cache: bool = True


def layers_of(fields: Fields) -> tuple[Layer, ...]:
    """The decoder layers of the model that `fields` describe.

    Raises:
        InputError: a field has an impossible value.
    """
    if fields.model_type == "nemotron_h":
        return _blocks(fields)
    layers = fields.number("num_hidden_layers")
    if layers > MOST_LAYERS:
        raise InputError(f"{fields.where}: num_hidden_layers must be at most {MOST_LAYERS:,}, got {layers:,}")
    mlps = _mlps(fields, layers)
    shared = fields.number("num_kv_shared_layers", default=0, least=0) if fields.model_type == "gemma4_text" else 0
    return tuple(
        Layer(index, mixer, mlp, own_cache=index < layers - shared)
        for index, (mixer, mlp) in enumerate(zip(_mixers(fields, layers), mlps, strict=True))
    )


def prediction_layers(fields: Fields) -> tuple[Layer, ...]:
    """The layers of one multi-token-prediction module in the config of its target; empty if there is none.

    Raises:
        InputError: a field has an impossible value.
    """
    if fields.number("num_nextn_predict_layers", "mtp_num_hidden_layers", default=0, least=0) == 0:
        return ()
    body = layers_of(fields)
    first = Layer(len(body), "full", body[-1].mlp)
    if fields.model_type == "nemotron_h":
        has_experts = any(layer.mlp == "experts" for layer in body)
        return replace(first, mlp="none"), Layer(len(body) + 1, "none", "experts" if has_experts else "dense")
    return (first,)


def _blocks(fields: Fields) -> tuple[Layer, ...]:
    """Layers that are each an attention, a recurrent layer or an MLP, as Nemotron-H states them."""
    pattern = fields.text("hybrid_override_pattern")
    names = fields.listed("layers_block_type") or fields.listed("layer_types")
    if pattern is not None and names is None:
        names = [_LETTERS.get(letter, letter) for letter in pattern]
    if not names or len(names) > MOST_LAYERS:
        raise InputError(
            f"{fields.where}: a config of model_type 'nemotron_h' must state its layers as layers_block_type or "
            f"hybrid_override_pattern, with at most {MOST_LAYERS:,} layers"
        )
    for name in names:
        if not isinstance(name, str) or name not in _BLOCKS:
            raise InputError(f"{fields.where}: {unknown('layer type', str(name), _BLOCKS)}")
    return tuple(Layer(index, *_BLOCKS[name]) for index, name in enumerate(names))


def _mixers(fields: Fields, layers: int) -> Sequence[Mixer]:
    types = fields.listed("layer_types")
    if types is not None:
        return _stated_mixers(fields, types, layers)
    if fields.family.linear:
        every = fields.number("full_attention_interval", default=4)
        hybrid: list[Mixer] = ["linear" if (index + 1) % every else "full" for index in range(layers)]
        return hybrid
    if fields.model_type == "llama4_text":
        return _llama4_mixers(fields, layers)
    if fields.values.get("sliding_window") is None:
        everywhere: list[Mixer] = ["full"] * layers
        return everywhere
    if fields.model_type.startswith("qwen"):
        windowed = fields.flag("use_sliding_window", False)
        first = fields.number("max_window_layers", default=28, least=0) if windowed else layers
        return ["full" if index < first else "window" for index in range(layers)]
    return _periodic_mixers(fields, layers)


def _stated_mixers(fields: Fields, types: Sequence[object], layers: int) -> Sequence[Mixer]:
    if len(types) != layers:
        raise InputError(
            f"{fields.where}: layer_types must have one entry for each of the num_hidden_layers={layers} layers, got "
            f"{len(types)} entries"
        )
    for name in types:
        if not isinstance(name, str) or name not in _MIXERS:
            raise InputError(f"{fields.where}: {unknown('layer type', str(name), _MIXERS)}")
        if name == "linear_attention" and not fields.family.linear:
            raise InputError(
                f"{fields.where}: a model of model_type {fields.model_type!r} has no linear_attention layers, but "
                "layer_types states some"
            )
    return [_MIXERS[str(name)] for name in types]


def _llama4_mixers(fields: Fields, layers: int) -> Sequence[Mixer]:
    """Layers with rotary embeddings attend to their chunk; every fourth layer has none and attends to all tokens."""
    rotary = fields.listed("no_rope_layers") or []
    if rotary and len(rotary) != layers:
        raise InputError(f"{fields.where}: no_rope_layers must have {layers} entries, got {len(rotary)}")
    every = fields.number("no_rope_layer_interval", default=4)
    chunked = rotary or [(index + 1) % every for index in range(layers)]
    return ["window" if chunk else "full" for chunk in chunked]


def _periodic_mixers(fields: Fields, layers: int) -> Sequence[Mixer]:
    pattern, every = fields.text("sliding_window_pattern"), fields.family.full_every
    if pattern is None:
        every = fields.number("sliding_window_pattern", default=every, least=0)
    elif pattern:
        every = len(pattern)
    mixers: list[Mixer] = ["window" if not every or (index + 1) % every else "full" for index in range(layers)]
    if fields.model_type == "gemma4_text":
        mixers[-1] = "full"
    return mixers


def _mlps(fields: Fields, layers: int) -> Sequence[Mlp]:
    """The kind of the MLP of each layer."""
    if not fields.family.experts or not fields.number(*EXPERTS, default=0, least=0):
        dense: list[Mlp] = ["dense"] * layers
        return dense
    return ["experts" if sparse else "dense" for sparse in _sparse(fields, layers)]


def _sparse(fields: Fields, layers: int) -> Sequence[bool]:
    """For each layer, whether it has routed experts."""
    kinds = fields.listed("mlp_layer_types")
    if kinds is not None:
        if len(kinds) != layers:
            raise InputError(f"{fields.where}: mlp_layer_types must have {layers} entries, got {len(kinds)}")
        return [kind == "sparse" for kind in kinds]
    if fields.model_type == "llama4_text":
        chosen = fields.listed("moe_layers")
        every = fields.number("interleave_moe_layer_step", default=1)
        return [index in chosen if chosen is not None else (index + 1) % every == 0 for index in range(layers)]
    if fields.family.shared == "count":
        dense = fields.number("first_k_dense_replace", default=0, least=0)
        step = fields.number("moe_layer_freq", default=1)
        return [index >= dense and index % step == 0 for index in range(layers)]
    step, excepted = fields.number("decoder_sparse_step", default=1), fields.listed("mlp_only_layers") or []
    return [(index + 1) % step == 0 and index not in excepted for index in range(layers)]
