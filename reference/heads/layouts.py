"""The layouts of checkpoints: names of tensors and fields of config.json, in three libraries.

Configurations, names and shapes are those that public code and issues quote (tests/reference/test_heads_published.py);
no checkpoint was at hand. Checked on 23 November 2026 against vllm-project/speculators @c05b95b, sgl-project/SpecForge
@a6b6b02, SGLang's llama_eagle.py and llama_eagle3.py, and SafeAILab/EAGLE @cb7e084.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from reference.heads.config import SIZES, HeadConfig, normal_rope
from spectheory.core.errors import InputError

ONLY: dict[str, tuple[Any, ...]] = {
    "model_type": ("llama",),
    "num_hidden_layers": (1,),
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "qk_norm": (False,),
    "fc_norm": (False,),
    "norm_output": (False,),
    "norm_before_fc": (False,),
    "use_aux_hidden_state": (True,),
    "pretraining_tp": (1,),
    "tie_word_embeddings": (False,),
    "use_sliding_window": (False,),
    "layer_types": (["full_attention"],),
}
"""Fields that decide what a head computes without a trace in its tensors, with the values that these heads have."""


def check_only(config: Mapping[str, Any]) -> None:
    """Refuse a field with a value that these heads cannot have."""
    for name, values in ONLY.items():
        if config.get(name) is not None and config[name] not in values:
            raise InputError(f"{name} must be {values[0]} for these heads, got {config[name]!r:.60}: no other is read")


def need(config: Mapping[str, Any], name: str, why: str = "") -> Any:
    """The value of a field that must be there; `why` is added to the message."""
    if name not in config:
        raise InputError(f"config.json of the head lacks the field {name}{why}")
    return config[name]


def inner(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The JSON object in a field, which must be there."""
    found = need(config, name)
    if not isinstance(found, Mapping):
        raise InputError(f"{name} in config.json of the head must be a JSON object, got {found!r:.60}")
    return found


def layer_numbers(value: Any, offset: int = 0) -> Any:
    """Numbers of layers, each plus `offset`; None if the field is absent, null or empty."""
    whole = isinstance(value, list) and all(type(number) is int for number in value)
    return (tuple(number + offset for number in value) if whole else value) or None


def layer_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of a Llama layer, as arguments of HeadConfig, from the config.json of a head or of its target."""
    hidden, heads = need(config, "hidden_size"), need(config, "num_attention_heads")
    if not isinstance(heads, int) or not isinstance(hidden, int) or heads < 1:
        raise InputError(
            f"hidden_size and num_attention_heads must be whole numbers, got {hidden!r:.60}, {heads!r:.60}"
        )
    usual = {"num_key_value_heads": heads, "head_dim": hidden // heads}
    rope = {name: config.get(name) for name in ("rope_theta", "rope_scaling", "rope_parameters")}
    return {name: need({**usual, **config}, name) for name in SIZES} | {
        "rms_norm_eps": config.get("rms_norm_eps", 1e-6),
        "rope": normal_rope({name: value for name, value in rope.items() if value is not None}),
        "positions": config.get("max_position_embeddings", 2048),
    }


def draft_vocabulary(config: Mapping[str, Any]) -> dict[str, Any]:
    """The draft vocabulary of an EAGLE-3 head, as an argument of HeadConfig."""
    if (width := config.get("target_hidden_size")) not in (None, config.get("hidden_size", width)):
        raise InputError(f"target_hidden_size must be the width of the head, got {width!r:.60}: no other is read")
    size = need(config, "draft_vocab_size")
    return {"draft_vocab_size": None if size == config.get("vocab_size") else size}


def layer_fields(config: HeadConfig) -> dict[str, Any]:
    """The fields of config.json for the layer of a head, as every engine reads them."""
    scaling = {name: value for name, value in config.rope.items() if name != "rope_theta"}
    sizes = {name: getattr(config, name) for name in SIZES}
    return sizes | {
        "attention_bias": False,
        "hidden_act": "silu",
        "max_position_embeddings": config.positions,
        "mlp_bias": False,
        "model_type": "llama",
        "num_hidden_layers": 1,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_scaling": None if scaling == {"rope_type": "default"} else scaling,
        "rope_theta": config.rope["rope_theta"],
        "tie_word_embeddings": False,
    }


class Speculators:
    """The layout of vllm-project/speculators, which vLLM reads.

    Layer numbers are of the layers that a state enters. `norm_before_residual` must be stated, because speculators
    takes false for an absent field, and vLLM true.
    """

    name = "speculators"

    def owns(self, config: Mapping[str, Any]) -> bool:
        """Whether a config.json has this layout."""
        return "speculators_model_type" in config or "speculators_config" in config

    def refusal(self, config: HeadConfig) -> str | None:
        """What this layout cannot express of a head; None if it can express the head."""
        return f"a head of kind {config.kind}" if config.kind != "eagle3" else None

    def read(self, config: Mapping[str, Any], *, own_embedding: bool) -> HeadConfig:
        """The head that a config.json describes. `own_embedding`: whether its weights include token embeddings."""
        if (kind := need(config, "speculators_model_type")) != "eagle3":
            raise InputError(f"speculators_model_type must be eagle3, got {kind!r:.60}: no other kind is read")
        layer = inner(config, "transformer_layer_config")
        check_only(config)
        check_only(layer)
        sizes = layer_sizes(layer)
        why = ": speculators takes false for an absent field, vLLM true; state it"
        return HeadConfig(
            "eagle3",
            **sizes,
            **draft_vocabulary({**sizes, **config}),
            own_embedding=own_embedding,
            layers=layer_numbers(config.get("eagle_aux_hidden_state_layer_ids")),
            norm_before_residual=need(config, "norm_before_residual", why),
            target=inner(inner(config, "speculators_config"), "verifier").get("name_or_path"),
        )

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """The config.json of a head. Engines choose the number of drafted tokens; the file states three."""
        proposal = {"accept_tolerance": 0.0, "proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
        return {
            "architectures": ["Eagle3DraftModel"],
            "draft_vocab_size": config.outputs,
            "dtype": str(dtype).removeprefix("torch."),
            "eagle_aux_hidden_state_layer_ids": None if config.layers is None else list(config.layers),
            "embed_requires_grad": False,
            "norm_before_fc": False,
            "norm_before_residual": config.norm_before_residual,
            "speculators_config": {
                "algorithm": "eagle3",
                "default_proposal_method": "greedy",
                "proposal_methods": [proposal],
                "verifier": {"architectures": [], "name_or_path": config.target},
            },
            "speculators_model_type": "eagle3",
            "target_hidden_size": None,
            "tie_word_embeddings": False,
            "transformer_layer_config": layer_fields(config),
        }


@dataclass(frozen=True)
class LlamaLayout:
    """The layouts of SGLang (and SpecForge) and of SafeAILab/EAGLE: the fields of one Llama config.json.

    SGLang's layer numbers are of the layers whose output is read, one below those of speculators: SpecForge names 1,
    n // 2 - 1 and n - 4. The EAGLE repository has no field for them.

    SpecForge's configs/qwen3-4b-eagle3.json says `tie_word_embeddings: true`, although its heads have an `lm_head` of
    their own and SGLang would not read that: such a file is refused.

    Attributes:
        name: sglang or eagle.
        eagle1, eagle3: the architecture of each kind of head.
    """

    name: str
    eagle1: str
    eagle3: str

    def owns(self, config: Mapping[str, Any]) -> bool:
        """Whether a config.json has this layout."""
        return config.get("architectures") in ([self.eagle1], [self.eagle3])

    def refusal(self, config: HeadConfig) -> str | None:
        """What this layout cannot express of a head; None if it can express the head."""
        if self.name == "sglang" and config.kind == "eagle1" and not config.fc_bias:
            return "an EAGLE-1 head whose fc has no bias: SGLang's module always has one"
        if config.norm_before_residual:
            return "norm_before_residual"
        layers = config.layers
        if layers is not None and (self.name == "eagle" or len(layers) != 3 or min(layers) == 0):
            return f"layers={layers}: SGLang reads the outputs of three layers, the EAGLE repository has no such field"
        return None

    def read(self, config: Mapping[str, Any], *, own_embedding: bool) -> HeadConfig:
        """The head that a config.json describes. `own_embedding`: whether its weights include token embeddings."""
        check_only(config)
        sizes, target = layer_sizes(config), config.get("base_model")
        if "draft_vocab_size" not in config:
            bias = config.get("bias", True)
            return HeadConfig("eagle1", **sizes, fc_bias=bias, own_embedding=own_embedding, target=target)
        more = inner(config, "eagle_config") if "eagle_config" in config else {}
        check_only(more)
        layers = layer_numbers(more.get("eagle_aux_hidden_state_layer_ids"), 1)
        vocabulary = draft_vocabulary(config)
        return HeadConfig("eagle3", **sizes, **vocabulary, layers=layers, own_embedding=own_embedding, target=target)

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """The config.json of a head. Other libraries ignore `base_model`, the name of the target."""
        fields = {
            "architectures": [self.eagle1 if config.kind == "eagle1" else self.eagle3],
            "base_model": config.target,
            "bias": config.fc_bias,
            "torch_dtype": str(dtype).removeprefix("torch."),
            **layer_fields(config),
        }
        if config.kind == "eagle3":
            fields["draft_vocab_size"] = config.outputs
        if config.layers is not None:
            outputs = [layer - 1 for layer in config.layers]
            fields["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": outputs, "use_aux_hidden_state": True}
        return fields


Layout = Speculators | LlamaLayout
LAYOUTS: tuple[Layout, ...] = (
    Speculators(),
    LlamaLayout("sglang", "LlamaForCausalLMEagle", "LlamaForCausalLMEagle3"),
    LlamaLayout("eagle", "LlamaForCausalLM", "LlamaForCausalLM"),
)


def tensor_names(layout: str, state: Iterable[str], config: HeadConfig) -> dict[str, str]:
    """The name in the file of each tensor of the module. Speculators leaves out the map of a whole vocabulary."""
    layer = "layers.0." if config.kind == "eagle1" or layout == "speculators" else "midlayer."
    left_out = ("d2t", "t2d") if layout == "speculators" and config.draft_vocab_size is None else ()
    return {name: re.sub(r"^layer\.", layer, name) for name in state if name not in left_out}


def layout_named(name: str) -> Layout:
    """The layout with this name; raises InputError for an unknown name."""
    names = [layout.name for layout in LAYOUTS]
    if name not in names:
        raise InputError(f"layout must be one of {', '.join(names)}, got {name!r:.60}")
    return LAYOUTS[names.index(name)]
