"""The weights of MLPs: dense ones, routed experts with their router, and shared experts."""

from __future__ import annotations

from dataclasses import replace

from spectheory.core.errors import InputError
from spectheory.hardware.hf_config import Fields
from spectheory.hardware.hf_layers import EXPERTS, Layer
from spectheory.hardware.shape import Weights


def mlp_weights(fields: Fields, layer: Layer, name: str, hidden: int) -> list[Weights]:
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


def experts_of(fields: Fields) -> tuple[int, int]:
    """The number of experts in a layer, and the number of them that a token uses."""
    experts = fields.number(*EXPERTS)
    taken = fields.number("num_experts_per_tok", "experts_per_token", "top_k_experts")
    if taken > experts:
        raise InputError(f"{fields.where}: num_experts_per_tok must be at most the {experts} experts, got {taken}")
    return experts, taken


def _routed(fields: Fields, name: str, hidden: int) -> list[Weights]:
    """The experts, the router and the shared experts of one layer."""
    experts, width = experts_of(fields)[0], fields.number("moe_intermediate_size", "intermediate_size")
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
