"""The weights and the caches of layers with attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from spectheory.core.errors import InputError
from spectheory.hardware.hf_config import Fields
from spectheory.hardware.hf_layers import Layer
from spectheory.hardware.shape import Cache, Weights


def attention_weights(fields: Fields, layer: Layer, name: str, hidden: int) -> list[Weights]:
    """The weights of the attention `name` of one layer."""
    return _latent(fields, name, hidden) if fields.family.latent else _attention(fields, layer, name, hidden)


def heads_of(fields: Fields, *, full: bool) -> tuple[int, int, int]:
    """The number of query heads, the number of key-value heads, and the size of a head."""
    heads = fields.number("num_attention_heads")
    kv_heads = fields.stated("num_key_value_heads", heads)
    if fields.model_type == "olmoe":
        size = fields.number("hidden_size") // heads
    else:
        size = fields.stated("head_dim", fields.number("hidden_size") // heads)
    if fields.model_type == "gemma4_text" and full:
        size = fields.number("global_head_dim", default=512)
        if fields.flag("attention_k_eq_v", False):
            kv_heads = fields.number("num_global_key_value_heads", default=kv_heads)
    if heads % kv_heads:
        raise InputError(
            f"{fields.where}: num_attention_heads must be a multiple of num_key_value_heads={kv_heads}, got {heads}"
        )
    return heads, kv_heads, size


def _attention(fields: Fields, layer: Layer, name: str, hidden: int) -> list[Weights]:
    family, full = fields.family, layer.mixer == "full"
    heads, kv_heads, size = heads_of(fields, full=full)
    says = fields.flag(family.bias_field, family.bias)
    qkv_bias = says if family.qkv_bias is None else family.qkv_bias and says
    out_bias = says if family.out_bias is None else family.out_bias
    one_matrix = full and fields.model_type == "gemma4_text" and fields.flag("attention_k_eq_v", False)
    parts = [("q_proj", heads * (1 + family.query_gate))]
    if layer.own_cache:
        parts += [("k_proj", kv_heads)] + [("v_proj", kv_heads)] * (not one_matrix)
    weights = [Weights(f"{name}.{part}", "matrix", number * size, hidden) for part, number in parts]
    weights.append(Weights(f"{name}.o_proj", "matrix", hidden, heads * size))
    biases = qkv_bias * sum(number * size for _, number in parts) + out_bias * hidden
    sinks = heads if fields.model_type == "gpt_oss" else 0
    norms = _qk_norms(fields, heads, kv_heads if layer.own_cache else 0, size)
    return [*weights, Weights(f"{name}.vectors", "other", biases + sinks + norms)]


def _qk_norms(fields: Fields, heads: int, kv_heads: int, size: int) -> int:
    """The number of parameters of the norms of queries and keys; `kv_heads` is 0 if the layer computes no keys."""
    family = fields.family
    if family.qk_norm == "none" or (family.qk_norm_field and not fields.flag(family.qk_norm_field, False)):
        return 0
    return (heads + kv_heads) * size if family.qk_norm == "all" else (1 + bool(kv_heads)) * size


def _latent(fields: Fields, name: str, hidden: int) -> list[Weights]:
    """Multi-head latent attention: for each token, the cache holds one latent and one rotary key for all heads."""
    heads, latent, rotary = (fields.number(n) for n in ("num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
    plain, value = fields.number("qk_nope_head_dim"), fields.number("v_head_dim")
    rank = fields.number("q_lora_rank", default=0)
    query = heads * (plain + rotary)
    if rank:
        weights = [
            Weights(f"{name}.q_a_proj", "matrix", rank, hidden),
            Weights(f"{name}.q_b_proj", "matrix", query, rank),
        ]
    else:
        weights = [Weights(f"{name}.q_proj", "matrix", query, hidden)]
    biases = (rank + latent + rotary + hidden) * fields.flag("attention_bias", False)
    return [
        *weights,
        Weights(f"{name}.kv_a_proj_with_mqa", "matrix", latent + rotary, hidden),
        Weights(f"{name}.kv_b_proj", "matrix", heads * (plain + value), latent),
        Weights(f"{name}.o_proj", "matrix", hidden, heads * value),
        Weights(f"{name}.vectors", "other", rank + latent + biases),
        *(_indexer(fields, f"{name}.indexer", hidden, rank) if _indexed(fields) else []),
    ]


def _indexed(fields: Fields) -> bool:
    """Whether an indexer selects the tokens to which the latent attention attends (DeepSeek sparse attention)."""
    return "index_topk" in fields.family.stated


def _indexer(fields: Fields, name: str, hidden: int, rank: int) -> list[Weights]:
    heads, size = fields.number("index_n_heads"), fields.number("index_head_dim")
    return [
        Weights(f"{name}.wq_b", "matrix", heads * size, rank),
        Weights(f"{name}.wk", "matrix", size, hidden),
        Weights(f"{name}.weights_proj", "other", heads, hidden),
        Weights(f"{name}.k_norm", "other", 2 * size),
    ]


def caches_of(fields: Fields, layers: Iterable[Layer]) -> tuple[Cache, ...]:
    """What the layers with attention cache, by kind of layer."""
    kinds = Counter((layer.mixer, layer.own_cache) for layer in layers if layer.mixer in ("full", "window"))
    caches = []
    for (mixer, own), count in kinds.items():
        window = _window(fields) if mixer == "window" else None
        caches += _cache(fields, Cache(count, 0, 0, window, stored=own), full=mixer == "full")
    return tuple(caches)


def _window(fields: Fields) -> int:
    """The number of tokens to which the layers with a window attend."""
    if fields.model_type == "llama4_text":
        return fields.number("attention_chunk_size", default=8192)
    return fields.number("sliding_window")


def _cache(fields: Fields, empty: Cache, *, full: bool) -> list[Cache]:
    """`empty` with its numbers and operations; a sparse attention also has the cache of its indexer."""
    if not fields.family.latent:
        heads, kv_heads, size = heads_of(fields, full=full)
        return [replace(empty, values=2 * kv_heads * size, flops=4 * heads * size)]
    heads, latent, rotary = (fields.number(n) for n in ("num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
    whole = replace(empty, values=latent + rotary, flops=2 * heads * (2 * latent + rotary))
    if not _indexed(fields):
        return [whole]
    size = fields.number("index_head_dim")
    keys = replace(empty, values=size, flops=2 * fields.number("index_n_heads") * size)
    return [replace(whole, selected=fields.number("index_topk")), keys]
