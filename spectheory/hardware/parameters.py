"""`Shape`: the number of parameters of a decoder by how a forward reads them, counted from its config."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spectheory.core.errors import InputError
from spectheory.hardware.hf_config import Fields
from spectheory.hardware.hf_layers import EXPERTS, Layer, layers_of, prediction_layers

Use = Literal["matrix", "other", "head", "lookup", "expert", "expert other", "borrowed"]
"""How a forward uses weights. `matrix`: a matrix of a layer. `other`: a vector or router. `head`: the output head.
`lookup`: input embeddings, of which a forward reads the rows of its tokens. `expert`, `expert other`: a matrix and
other weights of one routed expert. `borrowed`: the output head of the target, which a draft head reads."""


@dataclass(frozen=True)
class Weights:
    """The weights of one module.

    Attributes:
        name: the name of the module in a checkpoint; experts stand under the number 0.
        use: how a forward uses them.
        rows, columns: numbers of outputs and inputs of a matrix; a vector has one column.
    """

    name: str
    use: Use
    rows: int
    columns: int = 1

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Cache:
    """What layers of one kind cache.

    Attributes:
        layers: number of layers.
        values: numbers that one layer reads from the cache for one cached token.
        flops: operations of one token with one cached token in one layer.
        window: number of tokens that the layers keep; None if they keep all tokens.
        selected: largest number of cached tokens to which a token attends; None if it attends to all that are kept.
        stored: whether the layers store the numbers, rather than read the ones of other layers.
    """

    layers: int
    values: int
    flops: int
    window: int | None = None
    selected: int | None = None
    stored: bool = True

    def kept(self, context: int) -> int:
        """The number of tokens in the cache of one layer after `context` tokens."""
        return context if self.window is None else min(context, self.window)

    def read(self, context: int) -> int:
        """The number of cached tokens that one token reads in one layer after `context` tokens."""
        kept = self.kept(context)
        return kept if self.selected is None else min(kept, self.selected)


@dataclass(frozen=True)
class Shape:
    """Numbers of parameters of a model by how a forward reads them, and sizes of its attention.

    Attributes:
        layers: number of decoder layers.
        linear_parameters: parameters of the matrices of attention, dense MLPs and shared experts, in all layers. Every
            forward reads them. They are often packed.
        other_parameters: parameters of output head, norms, biases and routers. Every forward reads them. They are
            rarely packed.
        lookup_parameters: parameters of the input embeddings, unless they are also the output head. A forward reads
            only the rows of its tokens.
        kv_heads: number of heads among which tensor parallelism can divide the KV cache; 1 for latent attention.
        caches: what the layers cache, by kind of layer.
        borrowed_parameters: parameters of the target's output head, which a draft head reads and does not store.
        moe_layers, experts, experts_per_token: number of layers with routed experts, number of experts in such a layer,
            and number of these experts that a token uses.
        expert_linear_parameters, expert_other_parameters: parameters of the matrices, and other parameters, of one
            expert in one layer.
        state_bytes: bytes of the recurrent state of one sequence in all layers without attention: float32 states, and
            16-bit inputs of the convolutions.
        state_flops: operations of one token with this state.
        latent: whether the attention is multi-head latent attention.
    """

    layers: int
    linear_parameters: int
    other_parameters: int
    lookup_parameters: int
    kv_heads: int
    caches: tuple[Cache, ...]
    borrowed_parameters: int = 0
    moe_layers: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_linear_parameters: int = 0
    expert_other_parameters: int = 0
    state_bytes: int = 0
    state_flops: int = 0
    latent: bool = False

    @property
    def sliding_layers(self) -> int:
        """The number of layers that attend to a window only."""
        return sum(cache.layers for cache in self.caches if cache.window is not None)

    @property
    def kv_values(self) -> int:
        """Numbers that all layers together cache for one token, as if every layer kept all tokens."""
        return sum(cache.layers * cache.values for cache in self.caches if cache.stored)


@dataclass(frozen=True)
class Design:
    """A model or draft head as its config describes it: its layers and all its weights."""

    fields: Fields
    layers: tuple[Layer, ...]
    weights: tuple[Weights, ...]

    @property
    def shape(self) -> Shape:
        """The sums over the weights, and what the layers cache."""
        counts: Counter[Use] = Counter()
        for one in self.weights:
            counts[one.use] += one.size
        sparse = sum(layer.mlp == "experts" for layer in self.layers)
        experts, taken = _experts(self.fields) if sparse else (0, 0)
        state = _state(self.fields) if any(layer.mixer == "linear" for layer in self.layers) else (0, 0)
        recurrent = sum(layer.mixer == "linear" for layer in self.layers)
        latent = self.fields.family.latent
        return Shape(
            layers=len(self.layers),
            linear_parameters=counts["matrix"],
            other_parameters=counts["other"] + counts["head"],
            lookup_parameters=counts["lookup"],
            borrowed_parameters=counts["borrowed"],
            kv_heads=1 if latent else _heads(self.fields, full=False)[1],
            caches=_caches(self.fields, self.layers),
            moe_layers=sparse,
            experts=experts,
            experts_per_token=taken,
            expert_linear_parameters=counts["expert"] // max(sparse, 1),
            expert_other_parameters=counts["expert other"] // max(sparse, 1),
            state_bytes=recurrent * state[0],
            state_flops=recurrent * state[1],
            latent=latent,
        )


def design_of(fields: Fields) -> Design:
    """The layers and weights of the model or draft head that `fields` describe.

    Raises:
        InputError: a field is missing or has an impossible value.
    """
    layers, hidden = layers_of(fields), fields.number("hidden_size")
    body = [one for layer in layers for one in _layer(fields, layer, hidden)]
    if is_eagle3(fields):
        return Design(fields, layers, (*body, *_eagle3(fields, hidden)))
    if is_eagle1(fields):
        return Design(fields, layers, (*body[1:], *_eagle1(fields, hidden)))
    return Design(fields, layers, (*body, *_ends(fields, len(layers), hidden)))


def prediction_of(fields: Fields) -> Design | None:
    """The multi-token-prediction module in the config of a target; None if the config has none.

    The module fuses the embedding of the last token with the hidden state of the target and runs one layer like the
    target's last one. It shares the embeddings and the output head of the target. If a config has several modules, all
    have this size, and each drafted token needs a forward of one of them.

    Source: DeepSeek-V3 technical report, section 2.2.
    """
    layers = prediction_layers(fields)
    if not layers:
        return None
    hidden = fields.number("hidden_size")
    body = [one for layer in layers for one in _layer(fields, layer, hidden)]
    prefix = _prefix(fields, layers[0])
    fusion = Weights(f"{prefix}.eh_proj", "other", hidden, 2 * hidden)
    norms = Weights(f"{prefix}.norms", "other", 3 * hidden)
    return Design(fields, layers, (*body, fusion, norms, _borrowed_head(fields, hidden)))


def is_eagle3(fields: Fields) -> bool:
    """Whether the config describes an EAGLE-3 draft head."""
    return "draft_vocab_size" in fields.values or "eagle3" in str(fields.values.get("architectures")).lower()


def is_eagle1(fields: Fields) -> bool:
    """Whether the config describes a draft head of EAGLE-1 or EAGLE-2."""
    return not is_eagle3(fields) and "eagle" in str(fields.values.get("architectures")).lower()


def _prefix(fields: Fields, layer: Layer) -> str:
    return f"{'backbone' if fields.model_type == 'nemotron_h' else 'model'}.layers.{layer.index}"


def _layer(fields: Fields, layer: Layer, hidden: int) -> list[Weights]:
    """The weights of one decoder layer; the first of them are its norms."""
    family, prefix = fields.family, _prefix(fields, layer)
    norms = family.norms * (1 + family.norm_bias) * hidden
    weights = [Weights(f"{prefix}.norms", "other", norms)]
    weights += _mixer(fields, layer, f"{prefix}.{family.attention_name}", hidden)
    if layer.mlp != "none":
        weights += _mlps(fields, layer, f"{prefix}.{family.mlp_name}", hidden)
    if fields.model_type == "gemma4_text":
        weights += _gemma4_layer(fields, layer, prefix, hidden)
    return weights


def _mixer(fields: Fields, layer: Layer, name: str, hidden: int) -> list[Weights]:
    if layer.mixer == "none":
        return []
    if layer.mixer == "linear":
        delta = fields.family.linear == "delta"
        return _delta(fields, layer, hidden) if delta else _mamba(fields, name, hidden)
    return _latent(fields, name, hidden) if fields.family.latent else _attention(fields, layer, name, hidden)


def _heads(fields: Fields, *, full: bool) -> tuple[int, int, int]:
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
    heads, kv_heads, size = _heads(fields, full=full)
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


def _delta_sizes(fields: Fields) -> tuple[int, int, int, int]:
    """Sizes of all keys and of all values, number of value heads, and size of a value head."""
    heads, size = fields.number("linear_num_value_heads"), fields.number("linear_value_head_dim")
    return fields.number("linear_num_key_heads") * fields.number("linear_key_head_dim"), heads * size, heads, size


def _delta(fields: Fields, layer: Layer, hidden: int) -> list[Weights]:
    """A layer of the gated delta rule (Gated DeltaNet)."""
    keys, values, heads, size = _delta_sizes(fields)
    name = f"{_prefix(fields, layer)}.linear_attn"
    vectors = (2 * keys + values) * fields.number("linear_conv_kernel_dim") + 2 * heads + size
    return [
        Weights(f"{name}.in_proj_qkv", "matrix", 2 * keys + values, hidden),
        Weights(f"{name}.in_proj_z", "matrix", values, hidden),
        Weights(f"{name}.in_proj_ba", "matrix", 2 * heads, hidden),
        Weights(f"{name}.out_proj", "matrix", hidden, values),
        Weights(f"{name}.vectors", "other", vectors),
    ]


def _mamba_sizes(fields: Fields) -> tuple[int, int, int, int]:
    """Number of heads, size of all heads, channels of the convolution, and size of the state of a channel."""
    heads = fields.number("mamba_num_heads")
    inner, state = heads * fields.number("mamba_head_dim"), fields.number("ssm_state_size", "mamba_d_state")
    return heads, inner, inner + 2 * fields.number("n_groups", "mamba_n_groups") * state, state


def _mamba(fields: Fields, name: str, hidden: int) -> list[Weights]:
    """A Mamba 2 layer."""
    heads, inner, channels, _ = _mamba_sizes(fields)
    kernel, bias = fields.number("conv_kernel", "mamba_d_conv"), fields.flag("use_conv_bias", True)
    projections = fields.flag("use_bias", False) * (inner + channels + heads + hidden)
    return [
        Weights(f"{name}.in_proj", "matrix", inner + channels + heads, hidden),
        Weights(f"{name}.out_proj", "matrix", hidden, inner),
        Weights(f"{name}.vectors", "other", channels * (kernel + bias) + 3 * heads + inner + projections),
    ]


def _state(fields: Fields) -> tuple[int, int]:
    """Bytes of the state of one layer without attention, and operations of one token with it.

    The gated delta rule decays the state, reads it with the key, adds an outer product and reads it with the query:
    seven operations for each number. Mamba 2 decays, adds and reads: five.
    """
    if fields.family.linear == "delta":
        keys, values, _, _ = _delta_sizes(fields)
        numbers = fields.number("linear_key_head_dim") * values
        return 4 * numbers + 2 * (2 * keys + values) * (fields.number("linear_conv_kernel_dim") - 1), 7 * numbers
    _, inner, channels, state = _mamba_sizes(fields)
    kernel = fields.number("conv_kernel", "mamba_d_conv")
    return 4 * inner * state + 2 * channels * (kernel - 1), 5 * inner * state


def _caches(fields: Fields, layers: Iterable[Layer]) -> tuple[Cache, ...]:
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
        heads, kv_heads, size = _heads(fields, full=full)
        return [replace(empty, values=2 * kv_heads * size, flops=4 * heads * size)]
    heads, latent, rotary = (fields.number(n) for n in ("num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
    whole = replace(empty, values=latent + rotary, flops=2 * heads * (2 * latent + rotary))
    if not _indexed(fields):
        return [whole]
    size = fields.number("index_head_dim")
    keys = replace(empty, values=size, flops=2 * fields.number("index_n_heads") * size)
    return [replace(whole, selected=fields.number("index_topk")), keys]


def _mlps(fields: Fields, layer: Layer, name: str, hidden: int) -> list[Weights]:
    """The MLPs of one layer."""
    if layer.mlp == "experts":
        routed = _routed(fields, name, hidden)
        return routed if fields.model_type != "gemma4_text" else routed + _dense(fields, layer, name, hidden)
    return _dense(fields, layer, name, hidden)


def _dense(fields: Fields, layer: Layer, name: str, hidden: int) -> list[Weights]:
    if fields.model_type == "llama4_text":
        width = fields.number("intermediate_size_mlp", "intermediate_size")
    else:
        width = fields.number("intermediate_size", default=4 * hidden if fields.model_type in ("gpt2", "opt") else None)
    doubled = fields.model_type == "gemma4_text" and not layer.own_cache and fields.flag("use_double_wide_mlp", False)
    return _mlp(fields, name, hidden, width * (1 + doubled))


def _mlp(fields: Fields, name: str, hidden: int, width: int, *, routed: bool = False) -> list[Weights]:
    """One MLP or expert."""
    family = fields.family
    parts = ("gate_proj", "up_proj") if family.gated else ("up_proj",)
    biased = fields.flag("mlp_bias", False) and not routed if family.mlp_bias is None else family.mlp_bias
    if family.bias_field == "use_bias":
        biased = fields.flag("use_bias", family.bias)
    weights = [Weights(f"{name}.{part}", "matrix", width, hidden) for part in parts]
    weights.append(Weights(f"{name}.down_proj", "matrix", hidden, width))
    return [*weights, Weights(f"{name}.vectors", "other", biased * (len(parts) * width + hidden))]


def _experts(fields: Fields) -> tuple[int, int]:
    """The number of experts in a layer, and the number of them that a token uses."""
    experts = fields.number(*EXPERTS)
    taken = fields.number("num_experts_per_tok", "experts_per_token", "top_k_experts")
    if taken > experts:
        raise InputError(f"{fields.where}: num_experts_per_tok must be at most the {experts} experts, got {taken}")
    return experts, taken


def _routed(fields: Fields, name: str, hidden: int) -> list[Weights]:
    """The experts, the router and the shared experts of one layer."""
    experts, width = _experts(fields)[0], fields.number("moe_intermediate_size", "intermediate_size")
    inner = fields.number("moe_latent_size", default=hidden) if fields.model_type == "nemotron_h" else hidden
    expert = [
        replace(one, use="expert" if one.use == "matrix" else "expert other")
        for one in _mlp(fields, f"{name}.experts.0", inner, width, routed=True)
    ]
    biased = fields.family.router_bias or fields.model_type == "gpt_oss"
    router = Weights(f"{name}.gate", "other", experts, hidden + biased)
    latent = []
    if inner != hidden:
        biases = fields.flag("mlp_bias", False) * (inner + hidden)
        latent = [
            Weights(f"{name}.latent_proj", "matrix", 2 * inner, hidden),
            Weights(f"{name}.biases", "other", biases),
        ]
    return [*expert, router, *latent, *_shared(fields, name, hidden, width)]


def _shared(fields: Fields, name: str, hidden: int, width: int) -> list[Weights]:
    """The shared experts of one layer."""
    kind = fields.family.shared
    if kind == "one":
        return _mlp(fields, f"{name}.shared_expert", hidden, width)
    if kind == "gated":
        shared = _mlp(fields, f"{name}.shared_expert", hidden, fields.number("shared_expert_intermediate_size"))
        return [*shared, Weights(f"{name}.shared_expert_gate", "other", hidden)]
    count = fields.number("n_shared_experts", default=0, least=0) if kind else 0
    if not count:
        return []
    if kind == "stated":
        return _mlp(fields, f"{name}.shared_experts", hidden, fields.number("moe_shared_expert_intermediate_size"))
    return _mlp(fields, f"{name}.shared_experts", hidden, count * width)


def _gemma4_layer(fields: Fields, layer: Layer, prefix: str, hidden: int) -> list[Weights]:
    """The scalar of a layer of Gemma 4, the norms and scales of its experts, and its embedding of the token."""
    weights = [Weights(f"{prefix}.layer_scalar", "other", 1)]
    if layer.mlp == "experts":
        weights.append(Weights(f"{prefix}.router.scales", "other", 4 * hidden + _experts(fields)[0]))
    if inner := fields.number("hidden_size_per_layer_input", default=0, least=0):
        weights += [
            Weights(f"{prefix}.per_layer_input_gate", "matrix", inner, hidden),
            Weights(f"{prefix}.per_layer_projection", "matrix", hidden, inner),
            Weights(f"{prefix}.post_per_layer_input_norm", "other", hidden),
        ]
    return weights


def _gemma4_ends(fields: Fields, layers: int, hidden: int) -> list[Weights]:
    """The embeddings of each token for each layer of Gemma 4, and their projections."""
    inner = fields.number("hidden_size_per_layer_input", default=0, least=0)
    if not inner:
        return []
    rows = fields.number("vocab_size_per_layer_input", "vocab_size")
    return [
        Weights("model.embed_tokens_per_layer", "lookup", rows, layers * inner),
        Weights("model.per_layer_model_projection", "matrix", layers * inner, hidden),
        Weights("model.per_layer_projection_norm", "other", inner),
    ]


def _ends(fields: Fields, layers: int, hidden: int) -> list[Weights]:
    """Embeddings, final norm and output head of a whole model."""
    family, vocabulary = fields.family, fields.number("vocab_size")
    tied = fields.flag("tie_word_embeddings", family.tied)
    if fields.number("word_embed_proj_dim", default=hidden) != hidden:
        raise InputError(
            f"{fields.where}: word_embed_proj_dim must equal hidden_size={hidden}: others are not supported"
        )
    norm = Weights("model.norm", "other", family.final_norm * hidden * (1 + family.norm_bias))
    weights = [norm, Weights("lm_head", "head", vocabulary, hidden)]
    if family.head_bias:
        weights.append(Weights("lm_head.bias", "other", vocabulary))
    if not tied:
        weights.append(Weights("model.embed_tokens", "lookup", vocabulary, hidden))
    if family.positions is not None:
        rows = fields.number("max_position_embeddings") + family.positions
        weights.append(Weights("model.embed_positions", "lookup", rows, hidden))
    return weights + (_gemma4_ends(fields, layers, hidden) if fields.model_type == "gemma4_text" else [])


def _borrowed_head(fields: Fields, hidden: int) -> Weights:
    return Weights("lm_head", "borrowed", fields.number("vocab_size"), hidden)


def _eagle1(fields: Fields, hidden: int) -> Sequence[Weights]:
    """What a head of EAGLE-1 or EAGLE-2 has besides its layers, of which the first has one norm less.

    A matrix fuses the token and the feature of the target. Embeddings and output head are the ones of the target.
    """
    last = Weights("model.layers.0.post_attention_layernorm", "other", hidden)
    biased = fields.flag("bias", True)
    fusion = [Weights("fc", "matrix", hidden, 2 * hidden), Weights("fc.bias", "other", biased * hidden)]
    return [last, *fusion, _borrowed_head(fields, hidden)]


def _eagle3(fields: Fields, hidden: int) -> Sequence[Weights]:
    """What an EAGLE-3 head has besides its layers.

    A matrix fuses three features of the target. The attention of the first layer reads the token and the feature, so
    its query, key and value matrices have twice the input size. The input embeddings are the ones of the target, and
    are not counted. The output head has a smaller vocabulary of its own.
    """
    heads, kv_heads, size = _heads(fields, full=True)
    return [
        Weights("fc", "matrix", hidden, 3 * fields.number("target_hidden_size", default=hidden)),
        Weights("model.layers.0.self_attn.qkv_of_the_feature", "matrix", (heads + 2 * kv_heads) * size, hidden),
        Weights("model.norms", "other", 2 * hidden),
        Weights("lm_head", "head", fields.number("draft_vocab_size", "vocab_size"), hidden),
    ]
