"""The layers of a model or draft head by its Hugging Face config.json, all its weights, and their sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError, unknown
from spectheory.hardware.hf_fields import Fields

Use = Literal["matrix", "other", "head", "lookup", "expert", "expert other", "borrowed"]
"""How a forward uses weights. `matrix`: a matrix of a layer. `other`: a vector or router. `head`: the output head.
`lookup`: input embeddings, of which a forward reads the rows of its tokens. `expert`, `expert other`: a matrix and
other weights of one routed expert. `borrowed`: the output head of the target, which a draft head reads."""
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
"""The types of attention of a layer, as configs name them."""
MOST_LAYERS = 10_000
"""The largest number of layers that is accepted; it is above the number in every real config."""
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts")
"""The fields in which configs state the number of routed experts."""


@dataclass(frozen=True)
class Weights:
    """The weights of one module, or of one expert. A vector has one column. Matrices that formats treat alike need no
    name: `v_proj` and `down_proj` have one.
    """

    use: Use
    rows: int
    columns: float = 1
    name: str = ""

    @property
    def size(self) -> int:
        """The number of parameters."""
        return round(self.rows * self.columns)


@dataclass(frozen=True)
class Cache:
    """What layers of one kind cache.

    Attributes:
        layers: number of layers.
        values: numbers that one layer reads from the cache for one cached token.
        flops: operations of one token with one cached token in one layer.
        window: number of tokens that the layers keep; None if they keep all tokens.
    """

    layers: int
    values: int
    flops: int
    window: int | None = None

    def tokens(self, context: float) -> float:
        """The number of tokens in the cache of one layer after `context` tokens."""
        return context if self.window is None else min(context, self.window)


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
        state_bytes: bytes of the recurrent state of one sequence in all layers without attention.
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
    def linear_layers(self) -> int:
        """The number of layers with linear attention, which have a state instead of a cache."""
        return self.layers - sum(cache.layers for cache in self.caches) if self.state_bytes else 0


@dataclass(frozen=True)
class Design:
    """A model or draft head as its config describes it: all its weights, and what a forward reads of them."""

    fields: Fields
    weights: tuple[Weights, ...]
    shape: Shape


def design_of(fields: Fields, kind: str | None) -> Design:
    """The weights of the model, or of the draft head of this kind, that `fields` describe.

    Raises:
        InputError: a field is missing or has an impossible value.
    """
    sizes = fields.values.get("sizes")
    if sizes is not None:
        return _stated_design(fields, sizes)
    hidden = fields.number("hidden_size")
    layers = [] if kind == "medusa" else _layers(fields)
    body = [one for kind, sparse in layers for one in _layer(fields, kind, sparse, hidden)]
    if kind is None:
        return Design(fields, *_summed(fields, layers, [*body, *_ends(fields, hidden)]))
    weights, found = _summed(fields, layers, [*body[kind == "eagle1" :], *_HEADS[kind](fields, hidden)])
    return Design(fields, weights, replace(found, layers=max(1, found.layers)))


def prediction_of(fields: Fields) -> Design | None:
    """The multi-token-prediction module in the config of a target; None if the config has none.

    The module fuses the embedding of the last token with the hidden state of the target and runs one layer like the
    target's last one. It shares the embeddings and the output head of the target. If a config has several modules, all
    have this size, and each drafted token needs a forward of one of them.

    Source: DeepSeek-V3 technical report, section 2.2.
    """
    if isinstance(fields.values.get("sizes"), Mapping):
        return None
    if fields.number("num_nextn_predict_layers", "mtp_num_hidden_layers", default=0, least=0) == 0:
        return None
    hidden, last = fields.number("hidden_size"), (FULL, _layers(fields)[-1][1])
    fused = [Weights("other", hidden, 2 * hidden), Weights("other", 3 * hidden), _borrowed(fields, hidden)]
    return Design(fields, *_summed(fields, [last], [*_layer(fields, *last, hidden), *fused]))


def _stated_design(fields: Fields, sizes: Mapping[str, Any]) -> Design:
    """The design by the sizes that a JSON file states instead of a model_type that is known here.

    `layers` and `kv_bytes_per_token` (in 16 bits) or `caches`, with the fields of `Cache`, are required; so are
    `parameters` or `weights`, which has the number of parameters and of outputs by use. Of `parameters` all are taken
    as matrices, apart from the experts: with `active_parameters`, `experts` and `experts_per_token`, every layer has
    experts of equal size. Fields of `Shape` can be stated too.
    """
    own = replace(fields, values=sizes, where=f"{fields.where}: sizes")
    try:
        layers, experts, taken = (own.number(n, default=0) for n in ("layers", "experts", "experts_per_token"))
        stated: dict[str, Any] = {
            "kv_heads": fields.number("num_key_value_heads", default=1),
            "moe_layers": layers if experts else 0,
            **{name: sizes[name] for name in Shape.__dataclass_fields__ if name in sizes},
        }
        if "caches" in sizes:
            stated["caches"] = tuple(Cache(**cache) for cache in sizes["caches"])
        else:
            values = round(sizes["kv_bytes_per_token"] / 2 / layers)
            stated["caches"] = (Cache(layers, values, 2 * values),)
        if "weights" in sizes:
            weights = [Weights(use, rows, size / rows) for use, (size, rows) in sizes["weights"].items()]
        else:
            total = round(sizes["parameters"])
            each = round((total - sizes["active_parameters"]) / (experts - taken)) if experts else 0
            weights = [Weights("matrix", 1, total - each * experts), *([Weights("expert", 1, each)] if experts else [])]
        shape = Shape(**totals_of(Counter({one.use: one.size for one in weights}), stated["moe_layers"]), **stated)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(
            f"{own.where} must have layers, kv_bytes_per_token or caches, and parameters or weights ({error!r:.80})"
        ) from error
    return Design(fields, tuple(weights), shape)


def totals_of(counts: Counter[Use], sparse: int) -> dict[str, Any]:
    """The numbers of parameters of `Shape`; `sparse` layers have experts, or as many experts are counted."""
    return {
        "linear_parameters": counts["matrix"],
        "other_parameters": counts["other"] + counts["head"],
        "lookup_parameters": counts["lookup"],
        "borrowed_parameters": counts["borrowed"],
        "expert_linear_parameters": counts["expert"] // max(sparse, 1),
        "expert_other_parameters": counts["expert other"] // max(sparse, 1),
    }


def _summed(
    fields: Fields, layers: Sequence[tuple[str, bool]], weights: Iterable[Weights]
) -> tuple[tuple[Weights, ...], Shape]:
    """The weights, and their sums with what the layers cache."""
    known, counts = tuple(weights), Counter[Use]()
    for one in known:
        counts[one.use] += one.size
    sparse = sum(has_experts for _, has_experts in layers)
    experts, taken = _experts(fields) if sparse else (0, 0)
    latent, caches = fields.family.latent, _caches(fields, layers)
    shape = Shape(
        layers=len(layers),
        kv_heads=1 if latent or not caches else fields.heads()[1],
        caches=caches,
        moe_layers=sparse,
        experts=experts,
        experts_per_token=taken,
        latent=latent,
        **_state(fields, sum(kind == LINEAR for kind, _ in layers)),
        **totals_of(counts, sparse),
    )
    return known, shape


def _layers(fields: Fields) -> list[tuple[str, bool]]:
    """For each decoder layer, its type of attention, and whether it has experts."""
    layers = fields.number("num_hidden_layers")
    check_whole(f"{fields.where}: num_hidden_layers", layers, 1, most=MOST_LAYERS)
    return list(zip(_attentions(fields, layers), _sparse(fields, layers), strict=True))


def _attentions(fields: Fields, layers: int) -> Sequence[str]:
    types = fields.listed("layer_types", layers)
    if types is not None:
        if other := next((name for name in types if name not in (FULL, SLIDING, LINEAR)), None):
            raise InputError(f"{fields.where}: {unknown('layer type', str(other), (FULL, SLIDING, LINEAR))}")
        return types
    if fields.family.gated:
        every = fields.number("full_attention_interval", default=4)
        return [LINEAR if (index + 1) % every else FULL for index in range(layers)]
    return [SLIDING if windowed else FULL for windowed in _windowed(fields, layers)]


def _windowed(fields: Fields, layers: int) -> Sequence[bool]:
    if fields.values.get("sliding_window") is None:
        return [False] * layers
    if str(fields.values.get("model_type")).startswith("qwen"):
        windowed = fields.flag("use_sliding_window", False)
        first = fields.number("max_window_layers", default=28, least=0) if windowed else layers
        return [index >= first for index in range(layers)]
    every = fields.number("sliding_window_pattern", default=fields.family.full_every, least=0)
    return [not every or (index + 1) % every != 0 for index in range(layers)]


def _sparse(fields: Fields, layers: int) -> Sequence[bool]:
    if not fields.family.experts or not fields.number(*EXPERTS, default=0, least=0):
        return [False] * layers
    if fields.family.shared:
        dense = fields.number("first_k_dense_replace", default=0, least=0)
        step = fields.number("moe_layer_freq", default=1)
        return [index >= dense and index % step == 0 for index in range(layers)]
    step, excepted = fields.number("decoder_sparse_step", default=1), fields.listed("mlp_only_layers") or []
    return [(index + 1) % step == 0 and index not in excepted for index in range(layers)]


def _caches(fields: Fields, layers: Iterable[tuple[str, bool]]) -> tuple[Cache, ...]:
    kinds = Counter(kind for kind, _ in layers if kind != LINEAR)
    if not kinds:
        return ()
    if fields.family.latent:
        heads, latent, rotary = (fields.number(n) for n in ("num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
        values, flops = latent + rotary, 2 * heads * (2 * latent + rotary)
    else:
        heads, kv_heads, size = fields.heads()
        values, flops = 2 * kv_heads * size, 4 * heads * size
    window = fields.number("sliding_window") if kinds[SLIDING] else None
    return tuple(Cache(count, values, flops, window if kind == SLIDING else None) for kind, count in kinds.items())


def _linear_sizes(fields: Fields) -> tuple[int, int, int, int]:
    """Of a layer with linear attention: value heads, the size of a key head, and the sizes of all keys and values."""
    heads, size = fields.number("linear_num_value_heads"), fields.number("linear_key_head_dim")
    return heads, size, fields.number("linear_num_key_heads") * size, heads * fields.number("linear_value_head_dim")


def _state(fields: Fields, layers: int) -> dict[str, int]:
    """The states of layers with gated delta rules: a matrix a head in 32 bits, and the last tokens of a convolution.

    A token decays the matrix, reads it, and adds a product of two vectors: 7 operations for each number. Source:
    transformers, models/qwen3_next/modeling_qwen3_next.py, torch_recurrent_gated_delta_rule.
    """
    if not layers:
        return {}
    _, size, keys, values = _linear_sizes(fields)
    kept = 2 * (2 * keys + values) * (fields.number("linear_conv_kernel_dim", default=4) - 1)
    return {"state_bytes": layers * (4 * size * values + kept), "state_flops": layers * 7 * size * values}


def _linear(fields: Fields, hidden: int) -> list[Weights]:
    """Gated delta rules: queries, keys, values and gates, a convolution, and an output."""
    heads, _, keys, values = _linear_sizes(fields)
    kernel = fields.number("linear_conv_kernel_dim", default=4)
    return [
        Weights("matrix", 2 * keys + 2 * values, hidden),
        Weights("matrix", 2 * heads, hidden),
        Weights("matrix", hidden, values),
        Weights("other", (2 * keys + values) * kernel + 2 * heads + values // heads),
    ]


def _layer(fields: Fields, kind: str, sparse: bool, hidden: int) -> list[Weights]:
    """The weights of one decoder layer; the first of them are its norms."""
    attention = (_linear if kind == LINEAR else _latent if fields.family.latent else _attention)(fields, hidden)
    mlp = _routed(fields, hidden) if sparse else _mlp(fields, hidden, fields.number("intermediate_size"))
    return [Weights("other", fields.family.norms * hidden), *attention, *mlp]


def _attention(fields: Fields, hidden: int) -> list[Weights]:
    family, (heads, kv_heads, size) = fields.family, fields.heads()
    biases = fields.flag("attention_bias", family.bias) * ((heads + 2 * kv_heads) * size + family.out_bias * hidden)
    sinks = heads if fields.values.get("model_type") == "gpt_oss" else 0
    norms = 2 * size * (family.qk_norm and fields.flag("use_qk_norm", True))
    return [
        Weights("matrix", (1 + family.gated) * heads * size, hidden),
        Weights("matrix", kv_heads * size, hidden),
        Weights("matrix", kv_heads * size, hidden, "v_proj"),
        Weights("matrix", hidden, heads * size),
        Weights("other", biases + sinks + norms),
    ]


def _latent(fields: Fields, hidden: int) -> list[Weights]:
    """Multi-head latent attention: for each token, the cache holds one latent and one rotary key for all heads."""
    heads, latent, rotary = (fields.number(n) for n in ("num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
    plain, value = fields.number("qk_nope_head_dim"), fields.number("v_head_dim")
    rank = fields.number("q_lora_rank", default=0)
    biases = (rank + latent + rotary + hidden) * fields.flag("attention_bias", False)
    return [
        *([Weights("matrix", rank, hidden)] if rank else []),
        Weights("matrix", heads * (plain + rotary), rank or hidden),
        Weights("matrix", latent + rotary, hidden),
        Weights("matrix", heads * (plain + value), latent),
        Weights("matrix", hidden, heads * value),
        Weights("other", rank + latent + biases),
    ]


def _mlp(fields: Fields, hidden: int, width: int, *, routed: bool = False) -> list[Weights]:
    biased = fields.family.mlp_bias if routed else fields.flag("mlp_bias", fields.family.mlp_bias)
    use: tuple[Use, Use] = ("expert", "expert other") if routed else ("matrix", "other")
    return [
        Weights(use[0], width, hidden),
        Weights(use[0], width, hidden),
        Weights(use[0], hidden, width, "down_proj"),
        Weights(use[1], biased * (2 * width + hidden)),
    ]


def _experts(fields: Fields) -> tuple[int, int]:
    """The number of experts in a layer, and the number of them that a token uses."""
    experts, taken = fields.number(*EXPERTS), fields.number("num_experts_per_tok", "experts_per_token")
    check_whole(f"{fields.where}: num_experts_per_tok", taken, 1, most=experts)
    return experts, taken


def _routed(fields: Fields, hidden: int) -> list[Weights]:
    """One of the experts, the router and the shared experts of a layer."""
    width = fields.number("moe_intermediate_size", "intermediate_size")
    expert = _mlp(fields, hidden, width, routed=True)
    router = Weights("other", _experts(fields)[0], hidden + fields.family.router_bias)
    shared = width * fields.number("n_shared_experts", default=0, least=0) if fields.family.shared else 0
    if fields.family.gated and (shared := fields.number("shared_expert_intermediate_size", default=0, least=0)):
        expert.append(Weights("other", hidden))
    return [*expert, router, *(_mlp(fields, hidden, shared) if shared else [])]


def _ends(fields: Fields, hidden: int) -> list[Weights]:
    """Embeddings, final norm and output head of a whole model."""
    vocabulary = fields.number("vocab_size")
    weights = [Weights("other", hidden), Weights("head", vocabulary, hidden)]
    if not fields.flag("tie_word_embeddings", fields.family.tied):
        weights.append(Weights("lookup", vocabulary, hidden))
    return weights


AT_ONCE = ("p-eagle", "dflash", "dspark", "medusa")
"""Kinds of heads that draft all depths in one forward."""
_NAMING = ("architectures", "model_type", "speculators_model_type", "projector_type")
_WORDS = {"medusa": "medusa", "dspark": "dspark", "dflash": "dflash", "peagle": "p-eagle", "eagle3": "eagle3"}
_MARKS = {"medusa_num_heads": "medusa", "ptd_token_id": "p-eagle", "draft_vocab_size": "eagle3"}


def head_kind(fields: Fields) -> str | None:
    """The kind of the draft head that the config describes; None for a whole model."""
    named = " ".join(str(fields.values.get(name)) for name in _NAMING).lower()
    kinds = [kind for word, kind in _WORDS.items() if word in named]
    if kinds in ([], ["eagle3"]):
        kinds = [*(kind for mark, kind in _MARKS.items() if mark in fields.values), *kinds]
    return next(iter(kinds), "eagle1" if "eagle" in named else None)


def _borrowed(fields: Fields, hidden: int) -> Weights:
    return Weights("borrowed", fields.number("vocab_size"), hidden)


def _eagle1(fields: Fields, hidden: int) -> list[Weights]:
    """A matrix fuses the token and the feature of the target, whose embeddings and output head it uses.

    The first layer has one norm only, which is counted here. Source: SafeAILab/EAGLE, eagle/model/cnets1.py.
    """
    return [
        Weights("other", hidden),
        Weights("matrix", hidden, 2 * hidden),
        Weights("other", fields.flag("bias", True) * hidden),
        _borrowed(fields, hidden),
    ]


def _eagle3(fields: Fields, hidden: int) -> list[Weights]:
    """A matrix fuses three features of the target.

    The attention of the first layer reads the token and the feature, so its query, key and value matrices have twice
    the input size. The output head has a vocabulary of its own. Source: SafeAILab/EAGLE, eagle/model/cnets.py.
    """
    heads, kv_heads, size = fields.heads()
    return [
        Weights("matrix", hidden, 3 * fields.number("target_hidden_size", default=hidden)),
        Weights("matrix", (heads + 2 * kv_heads) * size, hidden),
        Weights("other", 2 * hidden),
        Weights("head", fields.number("draft_vocab_size", "vocab_size"), hidden),
    ]


def _dflash(fields: Fields, hidden: int) -> list[Weights]:
    """A matrix fuses as many features of the target as the config names layers, one for each own layer by default.

    Source: sgl-project/SpecForge, specforge/modeling/draft/dflash.py.
    """
    named = fields.listed("target_layer_ids") or fields.listed("aux_hidden_state_layer_ids")
    features = len(named) if named else fields.number("num_hidden_layers")
    own = "draft_vocab_size" in fields.values
    return [
        Weights("matrix", hidden, features * fields.number("target_hidden_size", default=hidden)),
        Weights("other", 2 * hidden),
        Weights("head", fields.number("draft_vocab_size"), hidden) if own else _borrowed(fields, hidden),
    ]


def _medusa(fields: Fields, hidden: int) -> list[Weights]:
    """Residual blocks and an output head for each depth. Source: FasterDecoding/Medusa, medusa_model.py."""
    depths = fields.number("medusa_num_heads", "num_heads")
    rows = depths * fields.number("medusa_num_layers", "num_hidden_layers", default=1, least=0) * hidden
    return [
        Weights("matrix", rows, hidden),
        Weights("other", rows),
        Weights("head", depths * fields.number("vocab_size"), hidden),
    ]


_HEADS = {"eagle1": _eagle1, "eagle3": _eagle3, "p-eagle": _eagle3, "medusa": _medusa}
_HEADS |= {"dflash": _dflash, "dspark": _dflash}
"""The weights of a head besides its layers. P-EAGLE has those of EAGLE-3, and DSpark those of DFlash, without the
embeddings, masks and biases of their own, which are a few percent of what a forward reads."""
