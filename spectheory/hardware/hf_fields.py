"""The fields of a Hugging Face config.json, and what the families of models have that theirs do not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError, unknown

LARGEST = 10**9
"""The largest number that is accepted in a config; it is above every number in a real config."""


@dataclass(frozen=True)
class Family:
    """Properties of a model_type that its config.json does not contain.

    Attributes:
        bias: the default of `attention_bias`; `out_bias` is whether the output projection then has biases too.
        mlp_bias: the default of `mlp_bias`, and whether experts have biases.
        norms: number of norms in a layer.
        qk_norm: whether queries and keys are normalised with the weights of one head, unless `use_qk_norm` is false.
        tied: the default of `tie_word_embeddings`.
        full_every: every n-th layer attends to all tokens, the other layers to a window. 0: all layers attend to a
            window, if the config has one.
        latent: whether the attention is multi-head latent attention.
        experts: whether layers can have routed experts.
        shared: whether layers with routed experts have `n_shared_experts` shared ones.
        gated: whether the queries have a gate of their size (Qwen3-Next, Qwen3.5).
        router_bias: whether the router has a bias for each expert.
    """

    bias: bool = False
    out_bias: bool = True
    mlp_bias: bool = False
    norms: int = 2
    qk_norm: bool = False
    tied: bool = False
    full_every: int = 1
    latent: bool = False
    experts: bool = False
    shared: bool = False
    router_bias: bool = False
    gated: bool = False


_MISTRAL = Family(full_every=0)
_HYBRID = Family(qk_norm=True, experts=True, gated=True)
_DEEPSEEK = Family(latent=True, experts=True, shared=True, router_bias=True)
FAMILIES = {
    "llama": Family(),
    "mistral": _MISTRAL,
    "mixtral": replace(_MISTRAL, experts=True),
    "phi3": _MISTRAL,
    "qwen2": Family(bias=True, out_bias=False),
    "qwen3": Family(qk_norm=True),
    "qwen3_moe": Family(qk_norm=True, experts=True),
    "qwen3_next": _HYBRID,
    "qwen3_5_text": _HYBRID,
    "gemma2": Family(norms=4, tied=True, full_every=2),
    "gemma3_text": Family(norms=4, qk_norm=True, tied=True, full_every=6),
    "gpt_oss": Family(bias=True, mlp_bias=True, full_every=2, experts=True, router_bias=True),
    "deepseek_v2": replace(_DEEPSEEK, router_bias=False),
    "deepseek_v3": _DEEPSEEK,
    "glm4_moe": Family(out_bias=False, qk_norm=True, experts=True, shared=True, router_bias=True),
}
SAME_AS = {
    "medusa": "llama",
    "granite": "llama",
    "ministral3": "mistral",
    "gemma3": "gemma3_text",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_5_moe_text": "qwen3_5_text",
    "kimi_k2": "deepseek_v3",
    "deepseek_v32": "deepseek_v3",
    "glm4_moe_lite": "deepseek_v3",
}
"""Names of model types whose language model has the parameters of another model type."""


@dataclass(frozen=True)
class Fields:
    """The fields of one config.json, with methods that read and check them. Errors name the field and the file.

    Attributes:
        values: the fields by name.
        where: the name of the file, for errors.
        family: the family of the model_type.
    """

    values: Mapping[str, Any]
    where: str
    family: Family

    @classmethod
    def of(cls, config: Mapping[str, Any], where: str) -> Fields:
        """The fields of the language model.

        In a multimodal config these are the fields of `text_config`, in the config of a draft head the ones of
        `transformer_layer_config` (speculators) and of `dflash_config` too.

        Raises:
            InputError: the model_type is not one of `FAMILIES`, and the config states no `sizes`.
        """
        for part in ("text_config", "transformer_layer_config", "dflash_config"):
            if isinstance(config.get(part), Mapping):
                config = {**config, **config[part]}
        if isinstance(config.get("sizes"), Mapping):
            return cls(config, where, Family())
        kind = SAME_AS.get(named := str(config.get("model_type")), named)
        if kind not in FAMILIES:
            raise InputError(
                f"{where}: {unknown('model_type', kind, [*FAMILIES, *SAME_AS])}; for another model, give a JSON file "
                'such as {"sizes": {"layers": 32, "parameters": 8e9, "kv_bytes_per_token": 131072}}'
            )
        return cls(config, where, FAMILIES[kind])

    def number(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The value of the first of `names` that the config contains, else `default`.

        Raises:
            InputError: the value is not a whole number of at least `least`, or there is neither a value nor a default.
        """
        name = next((name for name in names if self.values.get(name) is not None), None)
        if name is not None:
            check_whole(f"{self.where}: {name}", self.values[name], least, most=LARGEST)
            return self.values[name]
        if default is None:
            raise InputError(f"{self.where} lacks the field {' or '.join(map(repr, names))}, which it must have")
        return default

    def flag(self, name: str, default: bool) -> bool:
        """The value of a field that is true or false, else `default`."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{self.where}: {name} must be true or false, got {value!r:.40}")
        return default if value is None else value

    def listed(self, name: str, length: int | None = None) -> list[Any] | None:
        """The value of a field that is a list, of `length` entries if it is given; None if the config lacks it."""
        value = self.values.get(name)
        if value is not None and (not isinstance(value, list) or length not in (None, len(value))):
            entries = "" if length is None else f" with {length} entries, one for each layer"
            raise InputError(f"{self.where}: {name} must be a list{entries}, got {value!r:.40}")
        return value

    def heads(self) -> tuple[int, int, int]:
        """The number of query heads, the number of key-value heads, and the size of a head."""
        heads = self.number("num_attention_heads")
        kv_heads = self.number("num_key_value_heads", default=heads)
        if heads % kv_heads:
            wanted = f"a multiple of num_key_value_heads={kv_heads}"
            raise InputError(f"{self.where}: num_attention_heads must be {wanted}, got {heads}")
        return heads, kv_heads, self.number("head_dim", default=self.number("hidden_size") // heads)

    def longest_context(self) -> int | None:
        """The longest context in tokens; None if the config states no length.

        `yarn` scales `original_max_position_embeddings`, and `linear` and `dynamic` scale `max_position_embeddings`. It
        includes the scaling of other rope types. Source: vLLM, `_get_and_verify_max_len`.
        """
        stated = self.number("max_position_embeddings", default=0, least=0)
        scaling = self.values.get("rope_scaling") or self.values.get("rope_parameters")
        scaling = scaling if isinstance(scaling, Mapping) else {}
        kind, factor = scaling.get("rope_type") or scaling.get("type"), scaling.get("factor")
        if kind in ("yarn", "linear", "dynamic") and isinstance(factor, int | float) and 1 <= factor <= LARGEST:
            original = scaling.get("original_max_position_embeddings") if kind == "yarn" else None
            return int((original if isinstance(original, int) else stated) * factor) or None
        return stated or None
