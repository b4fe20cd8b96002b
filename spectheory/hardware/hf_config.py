"""`Fields`, the reader of a Hugging Face config.json, and `Family`, what a config.json does not contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown


@dataclass(frozen=True)
class Family:
    """Properties of a model_type that its config.json does not contain.

    Attributes:
        qkv_bias: whether the query, key and value projections have biases. True: yes, unless the config says no. None:
            as the field `attention_bias` says. False: no.
        out_bias: whether the output projection of the attention has biases. None: as `attention_bias` says.
        bias: the default of `attention_bias`.
        bias_field: the field that states whether attention and MLPs have biases, instead of `attention_bias`.
        mlp_bias: whether the MLPs have biases. None: as the field `mlp_bias` says, apart from routed experts.
        gated: whether the MLPs have a gate.
        norms: number of norms in a layer.
        norm_bias: whether the norms have biases.
        final_norm: whether there is a norm before the output head.
        qk_norm: how queries and keys are normalised: not at all, with the weights of one head, or with weights for all
            heads.
        qk_norm_field: the field that states whether they are normalised; empty if they always are.
        tied: the default of `tie_word_embeddings`.
        head_bias: whether the output head has biases.
        positions: position embeddings, apart from the `max_position_embeddings` ones; None if there are none.
        stated: fields that every config of the family must contain.
        full_every: every n-th layer attends to all tokens, the other layers to a window. 0: all layers attend to a
            window, if the config has one.
        latent: whether the attention is multi-head latent attention.
        linear: kind of the layers without attention: gated delta rule, or Mamba 2.
        query_gate: whether the query projection also computes a gate of the same size.
        experts: whether layers can have routed experts.
        shared: how the width of the shared experts is stated: `n_shared_experts` times the width of an expert, one
            expert more, `shared_expert_intermediate_size` with a gate, or `moe_shared_expert_intermediate_size`.
        router_bias: whether the router has a bias for each expert.
        attention_name, mlp_name: names of the two parts of a layer in a checkpoint.
    """

    qkv_bias: bool | None = None
    out_bias: bool | None = None
    bias: bool = False
    bias_field: str = "attention_bias"
    mlp_bias: bool | None = False
    gated: bool = True
    norms: int = 2
    norm_bias: bool = False
    final_norm: bool = True
    qk_norm: Literal["none", "head", "all"] = "none"
    qk_norm_field: str = ""
    tied: bool = False
    head_bias: bool = False
    positions: int | None = None
    stated: tuple[str, ...] = ("num_key_value_heads",)
    full_every: int = 1
    latent: bool = False
    linear: Literal["", "delta", "mamba"] = ""
    query_gate: bool = False
    experts: bool = False
    shared: Literal["", "count", "one", "gated", "stated"] = ""
    router_bias: bool = False
    attention_name: str = "self_attn"
    mlp_name: str = "mlp"


_STATED = ("num_key_value_heads", "head_dim")
_QWEN2 = Family(qkv_bias=True, out_bias=False, bias=True)
_QWEN3 = Family(qk_norm="head", stated=_STATED)
_QWEN_HYBRID = Family(qk_norm="head", stated=_STATED, linear="delta", query_gate=True)
_DEEPSEEK = Family(
    stated=("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    latent=True,
    experts=True,
    shared="count",
    router_bias=True,
)
_GLM = Family(qkv_bias=True, out_bias=False, bias=True, stated=_STATED)
_LLAMA = Family(mlp_bias=None, stated=())
_OPT = Family(True, True, bias=True, mlp_bias=True, gated=False, norm_bias=True, tied=True, positions=0, stated=())
FAMILIES = {
    "llama": _LLAMA,
    "mistral": Family(False, False, full_every=0),
    "ministral3": Family(False, False, stated=_STATED, full_every=0),
    "mixtral": Family(False, False, full_every=0, experts=True, mlp_name="block_sparse_moe"),
    "qwen2": _QWEN2,
    "qwen2_moe": replace(_QWEN2, bias_field="qkv_bias", experts=True, shared="gated"),
    "qwen3": _QWEN3,
    "qwen3_moe": replace(_QWEN3, experts=True),
    "qwen3_next": replace(_QWEN_HYBRID, experts=True, shared="gated"),
    "qwen3_5_text": _QWEN_HYBRID,
    "qwen3_5_moe_text": replace(_QWEN_HYBRID, experts=True, shared="gated"),
    "gemma": Family(tied=True, stated=_STATED),
    "gemma2": Family(norms=4, tied=True, stated=_STATED, full_every=2),
    "gemma3_text": Family(norms=4, qk_norm="head", tied=True, stated=_STATED, full_every=6),
    "gemma4_text": Family(norms=4, qk_norm="head", tied=True, stated=_STATED, full_every=6, experts=True),
    "phi": Family(
        True, True, bias=True, mlp_bias=True, gated=False, norms=1, norm_bias=True, head_bias=True, stated=()
    ),
    "phi3": Family(False, False, stated=(), full_every=0),
    "gpt2": _OPT,
    "gpt_neox": Family(bias=True, mlp_bias=True, gated=False, norm_bias=True, stated=()),
    "opt": replace(_OPT, positions=2),
    "gpt_oss": Family(bias=True, mlp_bias=True, stated=_STATED, full_every=2, experts=True),
    "deepseek_v2": replace(_DEEPSEEK, router_bias=False, mlp_bias=None),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": replace(_DEEPSEEK, stated=(*_DEEPSEEK.stated, "index_topk")),
    "glm": _GLM,
    "glm4": replace(_GLM, norms=4),
    "glm4_moe": Family(
        out_bias=False,
        stated=_STATED,
        experts=True,
        shared="count",
        router_bias=True,
        qk_norm="head",
        qk_norm_field="use_qk_norm",
    ),
    "glm4_moe_lite": _DEEPSEEK,
    "glm_moe_dsa": replace(_DEEPSEEK, stated=(*_DEEPSEEK.stated, "index_topk")),
    "granite": _LLAMA,
    "granitemoe": Family(stated=(), experts=True, mlp_name="block_sparse_moe"),
    "olmo": Family(stated=(), norms=0, final_norm=False),
    "olmo2": Family(stated=(), qk_norm="all"),
    "olmo3": Family(stated=(), qk_norm="all", full_every=4),
    "olmoe": Family(stated=(), qk_norm="all", experts=True),
    "cohere": Family(stated=(), norms=1, tied=True, qk_norm="all", qk_norm_field="use_qk_norm"),
    "cohere2": Family(stated=(), norms=1, tied=True, full_every=4),
    "starcoder2": Family(
        bias=True, bias_field="use_bias", mlp_bias=True, gated=False, norm_bias=True, tied=True, full_every=0
    ),
    "smollm3": Family(mlp_bias=None, tied=True),
    "exaone4": Family(False, False, qk_norm="head", full_every=4),
    "seed_oss": Family(qkv_bias=True, out_bias=False, bias=True, mlp_bias=None, stated=_STATED),
    "ernie4_5": Family(bias_field="use_bias", tied=True),
    "hunyuan_v1_dense": Family(qk_norm="head", stated=_STATED),
    "nemotron": Family(mlp_bias=None, gated=False, norm_bias=True),
    "nemotron_h": Family(
        False,
        False,
        mlp_bias=None,
        gated=False,
        norms=1,
        stated=_STATED,
        linear="mamba",
        experts=True,
        shared="stated",
        router_bias=True,
        attention_name="mixer",
        mlp_name="mixer",
    ),
    "llama4_text": Family(stated=_STATED, experts=True, shared="one", mlp_name="feed_forward"),
    "minimax_m2": Family(
        False, False, stated=_STATED, qk_norm="all", experts=True, router_bias=True, mlp_name="block_sparse_moe"
    ),
}
SAME_AS = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "gemma4_unified_text": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "kimi_k2": "deepseek_v3",
    "medusa": "llama",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "glm4v_moe_text": "glm4_moe",
}
"""Names of model types whose language model has the parameters of another model type."""
LARGEST = 10**9
"""The largest number that is accepted in a config; it is above every number in a real config."""
MOST_LAYERS = 10_000
"""The largest number of layers that is accepted; it is above the number in every real config."""

_OLD_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "ffn_dim": "intermediate_size",
}


@dataclass(frozen=True)
class Fields:
    """The fields of one config.json, with methods that read and check them. Errors name the field and the file.

    Attributes:
        values: the fields by name.
        where: the name of the file, for errors.
        model_type: the model_type, one of `FAMILIES`.
    """

    values: Mapping[str, Any]
    where: str
    model_type: str

    @classmethod
    def of(cls, config: Mapping[str, Any], where: str) -> Fields:
        """The fields of the language model.

        In a multimodal config these are the fields of `text_config`, in the config of a draft head the ones of
        `transformer_layer_config` (speculators) and of `dflash_config` too.

        Raises:
            InputError: the model_type is missing or not one of `FAMILIES`.
        """
        for part in ("text_config", "transformer_layer_config", "dflash_config"):
            if isinstance(config.get(part), Mapping):
                config = {**config, **config[part]}
        kind = config.get("model_type")
        if kind is None:
            raise InputError(f"{where} lacks the field 'model_type', which must be one of {', '.join(FAMILIES)}")
        kind = SAME_AS.get(kind, kind) if isinstance(kind, str) else str(kind)
        if kind not in FAMILIES:
            raise InputError(f"{where}: {unknown('model_type', kind, [*FAMILIES, *SAME_AS])}")
        return cls({_OLD_NAMES.get(key, key): value for key, value in config.items()}, where, kind)

    @property
    def family(self) -> Family:
        """The family of the model_type."""
        return FAMILIES[self.model_type]

    def number(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The value of the first of `names` that the config contains, else `default`.

        Raises:
            InputError: the value is not a whole number of at least `least`, or there is neither a value nor a default.
        """
        for name in names:
            value = self.values.get(name)
            if value is not None:
                check_whole(f"{self.where}: {name}", value, least, most=LARGEST)
                return value
        if default is None:
            raise InputError(
                f"{self.where} lacks the field {' or '.join(map(repr, names))}, which a config of model_type "
                f"{self.model_type!r} must have"
            )
        return default

    def flag(self, name: str, default: bool) -> bool:
        """The value of a field that is true or false, else `default`.

        Raises:
            InputError: the value is not true or false.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{self.where}: {name} must be true or false, got {value!r:.40}")
        return default if value is None else value

    def text(self, name: str) -> str | None:
        """The value of a field if it is a text, else None."""
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def stated(self, name: str, default: int) -> int:
        """The value of a number. If the config lacks it, `default`, unless every config of the family must contain it.

        Raises:
            InputError: the value is not a whole number of at least 1, or the config must contain it and does not.
        """
        return self.number(name, default=None if name in self.family.stated else default)

    def listed(self, name: str) -> list[Any] | None:
        """The value of a field that is a list; None if the config lacks it.

        Raises:
            InputError: the value is not a list.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise InputError(f"{self.where}: {name} must be a list, got {value!r:.40}")
        return value

    def longest_context(self) -> int | None:
        """The longest context in tokens, with the rope scaling of the config; None if the config states no length.

        For the rope types `llama3` and `longrope`, and in Gemma 3, `max_position_embeddings` already includes the
        scaling. `yarn` scales `original_max_position_embeddings`. Other types scale `max_position_embeddings`.

        Source: vLLM, `_get_and_verify_max_len`.
        """
        if self.values.get("max_position_embeddings") is None:
            return None
        stated = self.number("max_position_embeddings")
        scaling = self.values.get("rope_scaling") or self.values.get("rope_parameters") or {}
        if not isinstance(scaling, Mapping):
            raise InputError(f"{self.where}: rope_scaling or rope_parameters must be an object, got {scaling!r:.40}")
        factor, kind = scaling.get("factor"), scaling.get("rope_type") or scaling.get("type")
        if factor is None or kind in ("llama3", "longrope", "su") or self.model_type.startswith("gemma3"):
            return stated
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= LARGEST:
            raise InputError(
                f"{self.where}: the factor of rope_scaling or rope_parameters must be a number above 0 and at most "
                f"{LARGEST:,}, got {factor!r:.40}"
            )
        original = scaling.get("original_max_position_embeddings") if kind == "yarn" else None
        return int((original if isinstance(original, int) else stated) * factor)
