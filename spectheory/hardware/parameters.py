"""`Shape`: the number of parameters of a decoder by how a forward reads them, counted from its config."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spectheory.core.errors import InputError
from spectheory.hardware.hf_config import Fields

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts")
"""The fields in which configs state the number of routed experts."""


@dataclass(frozen=True)
class Shape:
    """Numbers of parameters of a model by how a forward reads them, and sizes of its attention.

    Attributes:
        layers: number of decoder layers.
        linear_parameters: parameters of the matrices of attention, dense MLPs and shared experts, in all layers. Every
            forward reads them. They are often packed.
        other_parameters: parameters of output head, norms, biases and routers. Every forward reads them. They are not
            packed.
        lookup_parameters: parameters of the input embeddings, unless they are also the output head. A forward reads
            only the rows of its tokens.
        moe_layers, experts, experts_per_token: number of layers with routed experts, number of experts in such a layer,
            and number of these experts that a token uses.
        expert_linear_parameters, expert_other_parameters: parameters of the matrices, and other parameters, of one
            expert in one layer.
        kv_heads: number of heads among which tensor parallelism can divide the KV cache; 1 for latent attention.
        kv_values: numbers that one layer caches for one token.
        attention_flops: operations of the attention of one token to one cached token in one layer.
        sliding_layers, window: number of layers that attend to a window only, and tokens in this window.
        latent: whether the attention is multi-head latent attention.
    """

    layers: int
    linear_parameters: int
    other_parameters: int
    lookup_parameters: int
    kv_heads: int
    kv_values: int
    attention_flops: int
    moe_layers: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_linear_parameters: int = 0
    expert_other_parameters: int = 0
    sliding_layers: int = 0
    window: int = 0
    latent: bool = False


def shape_of(fields: Fields) -> Shape:
    """The shape of the model that `fields` describe.

    Raises:
        InputError: a field is missing or has an impossible value.
    """
    family, layers, hidden = fields.family, fields.number("num_hidden_layers"), fields.number("hidden_size")
    norm = hidden * (1 + family.norm_bias)
    shape = _attention(fields, layers, hidden)
    shape = _mlps(fields, shape, hidden)
    shape = replace(shape, other_parameters=shape.other_parameters + (layers * family.norms + 1) * norm)
    if is_eagle3(fields):
        return _eagle3(fields, shape, hidden)
    embedding = fields.number("vocab_size") * hidden
    tied = fields.flag("tie_word_embeddings", family.tied)
    positions = fields.number("max_position_embeddings") * hidden if fields.model_type == "gpt2" else 0
    head = embedding + family.head_bias * fields.number("vocab_size")
    return replace(
        shape,
        other_parameters=shape.other_parameters + head,
        lookup_parameters=positions + (0 if tied else embedding),
    )


def is_eagle3(fields: Fields) -> bool:
    """Whether the config describes an EAGLE-3 draft head."""
    return "draft_vocab_size" in fields.values or "Eagle3" in str(fields.values.get("architectures"))


def _attention(fields: Fields, layers: int, hidden: int) -> Shape:
    """The attention of all layers, without the norms over the hidden size."""
    sliding = fields.sliding_layers(layers)
    window = fields.number("sliding_window") if sliding else 0
    if fields.model_type.startswith("deepseek"):
        return replace(_latent_attention(fields, layers, hidden), sliding_layers=sliding, window=window)
    heads = fields.number("num_attention_heads")
    kv_heads = fields.stated("num_key_value_heads", heads)
    if heads % kv_heads:
        raise InputError(
            f"{fields.where}: num_attention_heads must be a multiple of num_key_value_heads={kv_heads}, got {heads}"
        )
    size = fields.stated("head_dim", hidden // heads)
    default = fields.flag("qkv_bias" if fields.model_type == "qwen2_moe" else "attention_bias", _biased(fields))
    qkv_bias = default if fields.family.qkv_bias is None else fields.family.qkv_bias and default
    out_bias = default if fields.family.out_bias is None else fields.family.out_bias
    qkv = (heads + 2 * kv_heads) * size
    other = qkv_bias * qkv + out_bias * hidden + fields.family.qk_norm * 2 * size
    other += heads if fields.model_type == "gpt_oss" else 0  # attention sinks
    return Shape(
        layers=layers,
        linear_parameters=layers * (qkv * hidden + heads * size * hidden),
        other_parameters=layers * other,
        lookup_parameters=0,
        kv_heads=kv_heads,
        kv_values=2 * kv_heads * size,
        attention_flops=4 * heads * size,
        sliding_layers=sliding,
        window=window,
    )


def _biased(fields: Fields) -> bool:
    """Whether the attention has biases if the config does not say so."""
    return bool(fields.family.qkv_bias) or fields.model_type == "gpt_oss"


def _latent_attention(fields: Fields, layers: int, hidden: int) -> Shape:
    """Multi-head latent attention: for each token, the cache holds one latent and one rotary key for all heads."""
    heads, latent, rotary = (fields.number(n) for n in ("num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
    plain, value = fields.number("qk_nope_head_dim"), fields.number("v_head_dim")
    rank = fields.number("q_lora_rank", default=0)
    query = heads * (plain + rotary)
    matrices = rank * (hidden + query) if rank else hidden * query
    matrices += hidden * (latent + rotary) + latent * heads * (plain + value) + heads * value * hidden
    biases = (rank + latent + rotary + hidden) * fields.flag("attention_bias", False)
    return Shape(
        layers=layers,
        linear_parameters=layers * matrices,
        other_parameters=layers * (rank + latent + biases),
        lookup_parameters=0,
        kv_heads=1,
        kv_values=latent + rotary,
        attention_flops=2 * heads * (2 * latent + rotary),
        latent=True,
    )


def _mlps(fields: Fields, shape: Shape, hidden: int) -> Shape:
    """`shape` with the parameters of its dense and routed MLPs."""
    experts = 0 if fields.model_type == "llama" else fields.number(*EXPERTS, default=0, least=0)
    sparse = fields.moe_layers(shape.layers) if experts else 0
    if sparse:
        shape = _routed(fields, shape, hidden, experts, sparse)
    dense = shape.layers - sparse
    if not dense:
        return shape
    width = fields.number("intermediate_size", default=4 * hidden if fields.model_type == "gpt2" else None)
    linear, other = _mlp(fields, hidden, width)
    return replace(
        shape,
        linear_parameters=shape.linear_parameters + dense * linear,
        other_parameters=shape.other_parameters + dense * other,
    )


def _mlp(fields: Fields, hidden: int, width: int) -> tuple[int, int]:
    """The number of parameters of the matrices, and of the biases, of one MLP or expert."""
    inner = 2 if fields.family.gated else 1
    biased = fields.family.mlp_bias or fields.flag("mlp_bias", False)
    return (inner + 1) * hidden * width, biased * (inner * width + hidden)


def _routed(fields: Fields, shape: Shape, hidden: int, experts: int, sparse: int) -> Shape:
    """`shape` with the experts, the routers and the shared experts of `sparse` layers."""
    taken = fields.number("num_experts_per_tok", "experts_per_token")
    if taken > experts:
        raise InputError(f"{fields.where}: num_experts_per_tok must be at most the {experts} experts, got {taken}")
    width = fields.number("moe_intermediate_size", "intermediate_size")
    linear, other = _mlp(fields, hidden, width)
    shared, gate = fields.number("n_shared_experts", default=0, least=0) * width, 0
    if fields.model_type == "qwen2_moe":
        shared, gate = fields.number("shared_expert_intermediate_size"), hidden
    router = experts * (hidden + (fields.model_type in ("gpt_oss", "deepseek_v3")))
    return replace(
        shape,
        linear_parameters=shape.linear_parameters + sparse * _mlp(fields, hidden, shared)[0],
        other_parameters=shape.other_parameters + sparse * (router + gate),
        moe_layers=sparse,
        experts=experts,
        experts_per_token=taken,
        expert_linear_parameters=linear,
        expert_other_parameters=other,
    )


def _eagle3(fields: Fields, shape: Shape, hidden: int) -> Shape:
    """The shape of an EAGLE-3 draft head, from the `shape` of its layers.

    The head has a matrix that fuses three features of the target. The attention of its first layer reads the token and
    the feature, so its query, key and value matrices have twice the input size. The input embeddings are the ones of
    the target, and are not counted. The output head has a smaller vocabulary of its own.
    """
    fused = 3 * fields.number("target_hidden_size", default=hidden) * hidden
    query_key_value = shape.attention_flops // 4 + shape.kv_values
    head = fields.number("draft_vocab_size", "vocab_size") * hidden
    return replace(
        shape,
        linear_parameters=shape.linear_parameters + fused + query_key_value * hidden,
        other_parameters=shape.other_parameters + hidden + head,
    )
