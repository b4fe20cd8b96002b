"""The layouts of checkpoints: names of tensors and fields of config.json, in three libraries.

Configurations, names and shapes are those that public code and issues quote (tests/reference/test_heads_published.py);
no checkpoint was at hand. Checked on 23 November 2026 against vllm-project/speculators @c05b95b, sgl-project/SpecForge
@a6b6b02, SGLang's llama_eagle.py and llama_eagle3.py, and SafeAILab/EAGLE @cb7e084.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import LlamaConfig

from reference.heads.config import EAGLE3_OPTIONS, HeadConfig, check_rope
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

WITHOUT_EFFECT = (
    "_name_or_path",
    "attention_dropout",
    "auto_map",
    "base_model_ep_plan",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "has_no_defaults_at_init",
    "initializer_range",
    "max_window_layers",
    "pad_token_id",
    "torch_dtype",
    "transformers_version",
    "use_cache",
)
"""Fields that do not change what a head computes."""
ONLY: dict[str, tuple[Any, ...]] = {
    "model_type": ("llama",),
    "num_hidden_layers": (1,),
    "pretraining_tp": (1, None),
    "tie_word_embeddings": (False,),
    "sliding_window": (None,),
    "use_sliding_window": (False,),
    "layer_types": (None, ["full_attention"]),
}
"""Fields of the layer, with the values that these heads can have."""


class Fields:
    """The fields of a JSON object. Each field is taken once; a field that nobody takes is an error.

    Args:
        values: the object.
        where: the name of the object in messages.
    """

    def __init__(self, values: Any, where: str | Path) -> None:
        if not isinstance(values, Mapping):
            raise InputError(f"{where} must be a JSON object, got {values!r:.60}")
        self.left = dict(values)
        self.where = where

    def take(self, name: str, default: Any = None) -> Any:
        """The value of a field, or `default`."""
        return self.left.pop(name, default)

    def need(self, name: str, why: str = "") -> Any:
        """The value of a field that must be there; `why` is added to the message."""
        if name not in self.left:
            raise InputError(f"{self.where} lacks the field {name}{why}")
        return self.left.pop(name)

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1; it must be there if there is no `default`."""
        value = self.need(name) if default is None else self.take(name, default)
        check_whole(f"{name} in {self.where}", value, 1)
        return value

    def options(self, *names: str) -> dict[str, Any]:
        """The fields with these names; an absent one is false."""
        return {name: self.take(name, False) for name in names}

    def layer_numbers(self, name: str, offset: int = 0) -> Any:
        """Numbers of layers, each plus `offset`; None if the field is absent, null or empty."""
        value = self.take(name) or None
        whole = isinstance(value, list) and all(type(number) is int for number in value)
        return tuple(number + offset for number in value) if whole else value

    def object(self, name: str) -> Fields:
        """The fields of the JSON object in field `name`, which must be there."""
        return Fields(self.need(name), f"{name} in {self.where}")

    def layer(self) -> dict[str, Any]:
        """The sizes of a Llama layer, as arguments of HeadConfig."""
        for name, values in ONLY.items():
            if name in self.left and self.take(name) not in values:
                raise InputError(
                    f"{name} in {self.where} must be {values[0]} for these heads: another head needs another module"
                )
        hidden, heads = self.whole("hidden_size"), self.whole("num_attention_heads")
        return {
            "hidden_size": hidden,
            "intermediate_size": self.whole("intermediate_size"),
            "vocab_size": self.whole("vocab_size"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.whole("num_key_value_heads", heads),
            "head_dim": self.whole("head_dim", max(1, hidden // heads)),
            "rms_norm_eps": self.take("rms_norm_eps", 1e-6),
            "hidden_act": self.take("hidden_act", "silu"),
            "rope": self._rope(),
            "positions": self.whole("max_position_embeddings", 2048),
            **self.options("attention_bias", "mlp_bias"),
        }

    def _rope(self) -> dict[str, Any]:
        """The parameters of the rotary embedding: transformers brings the older fields into its present form."""
        given = {name: self.take(name) for name in ("rope_theta", "rope_scaling", "rope_parameters")}
        given = {name: value for name, value in given.items() if value is not None}
        rope: dict[str, Any] = {}
        check_rope(given, lambda: rope.update(LlamaConfig(**given).rope_parameters or {}) or [])
        rope.pop("type", None)
        return rope

    def finish(self) -> None:
        """Raise InputError if fields are left that no layout knows."""
        for name in WITHOUT_EFFECT:
            self.take(name)
        if self.left:
            raise InputError(
                f"{self.where} has fields that are unknown for this layout: {', '.join(sorted(self.left))}; remove "
                "those that do not change what the head computes"
            )


def layer_fields(layer: Any) -> dict[str, Any]:
    """The fields of config.json for the layer of a HeadConfig, as every engine reads them."""
    scaling = {name: value for name, value in layer.rope.items() if name != "rope_theta"}
    return {
        "attention_bias": layer.attention_bias,
        "head_dim": layer.head_dim,
        "hidden_act": layer.hidden_act,
        "hidden_size": layer.hidden_size,
        "intermediate_size": layer.intermediate_size,
        "max_position_embeddings": layer.positions,
        "mlp_bias": layer.mlp_bias,
        "model_type": "llama",
        "num_attention_heads": layer.num_attention_heads,
        "num_hidden_layers": 1,
        "num_key_value_heads": layer.num_key_value_heads,
        "rms_norm_eps": layer.rms_norm_eps,
        "rope_scaling": None if scaling == {"rope_type": "default"} else scaling,
        "rope_theta": layer.rope["rope_theta"],
        "tie_word_embeddings": False,
        "vocab_size": layer.vocab_size,
    }


def _unless(value: Any, default: int) -> Any:
    """`value`, or None if it equals the default."""
    return None if value == default else value


class Layout(ABC):
    """The format of the checkpoints of one library.

    Attributes:
        name: the name on the command line.
        whole_map: whether a head that drafts all tokens also has `d2t` and `t2d` in its file.
        certain: whether a config.json that this layout owns certainly describes a head, and not possibly a model.
    """

    name: ClassVar[str]
    whole_map: ClassVar[bool] = False
    certain: ClassVar[bool] = True

    @abstractmethod
    def owns(self, config: dict[str, Any]) -> bool:
        """Whether a config.json has this layout."""

    @abstractmethod
    def refusal(self, config: HeadConfig) -> str | None:
        """What this layout cannot express of a head; None if it can express the head."""

    @abstractmethod
    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        """The head that a config.json describes. `own_embedding`: whether its weights include token embeddings."""

    @abstractmethod
    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """The config.json of a head."""

    def tensor_name(self, name: str, config: HeadConfig) -> str:
        """The name of the tensor that the module calls `name`."""
        layer = "layers.0." if config.kind == "eagle1" or self.name == "speculators" else "midlayer."
        return layer + name.removeprefix("layer.") if name.startswith("layer.") else name


class Speculators(Layout):
    """The layout of vllm-project/speculators, which vLLM reads.

    Layer numbers are of the layers that a state enters. `norm_before_residual` must be stated, because speculators
    takes false for an absent field, and vLLM true.
    """

    name = "speculators"

    def owns(self, config: dict[str, Any]) -> bool:
        return "speculators_model_type" in config or "speculators_config" in config

    def refusal(self, config: HeadConfig) -> str | None:
        if config.kind != "eagle3":
            return f"a head of kind {config.kind}"
        return "a bias of fc (fc_bias)" if config.fc_bias else None

    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        kind = fields.need("speculators_model_type")
        if kind != "eagle3":
            raise InputError(f"speculators_model_type must be eagle3, got {kind!r:.60}: no other kind is read")
        layer, plan = fields.object("transformer_layer_config"), fields.object("speculators_config")
        sizes = layer.layer()
        why = ": speculators takes false for an absent field, vLLM true; state it"
        options = fields.options(*EAGLE3_OPTIONS[:3])
        options["norm_before_residual"] = fields.need("norm_before_residual", why)
        config = HeadConfig(
            "eagle3",
            **sizes,
            **options,
            **_speculation(plan),
            own_embedding=own_embedding,
            target_hidden_size=_unless(fields.take("target_hidden_size"), sizes["hidden_size"]),
            draft_vocab_size=_unless(fields.whole("draft_vocab_size"), sizes["vocab_size"]),
            layers=fields.layer_numbers("eagle_aux_hidden_state_layer_ids"),
        )
        for name in ("architectures", "embed_requires_grad", "speculators_version", "tie_word_embeddings"):
            fields.take(name)
        layer.take("architectures")
        for part in (layer, fields):
            part.finish()
        return config

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        proposal = {
            "accept_tolerance": 0.0,
            "proposal_type": "greedy",
            "speculative_tokens": config.speculative_tokens,
            "verifier_accept_k": 1,
        }
        return {
            "architectures": ["Eagle3DraftModel"],
            "draft_vocab_size": config.outputs,
            "dtype": str(dtype).removeprefix("torch."),
            "eagle_aux_hidden_state_layer_ids": None if config.layers is None else list(config.layers),
            "embed_requires_grad": False,
            **{name: getattr(config, name) for name in EAGLE3_OPTIONS},
            "speculators_config": {
                "algorithm": "eagle3",
                "default_proposal_method": "greedy",
                "proposal_methods": [proposal],
                "verifier": {"architectures": list(config.target_architectures), "name_or_path": config.target},
            },
            "speculators_model_type": "eagle3",
            "target_hidden_size": config.target_hidden_size,
            "tie_word_embeddings": False,
            "transformer_layer_config": layer_fields(config),
        }


def _speculation(plan: Fields) -> dict[str, Any]:
    """What `speculators_config` says: the target, and how many tokens to draft. How engines propose is theirs."""
    target, methods = plan.object("verifier"), plan.need("proposal_methods")
    if not isinstance(methods, list) or len(methods) != 1:
        raise InputError(f"proposal_methods in {plan.where} must be one method, got {methods!r:.120}")
    tokens = Fields(methods[0], f"proposal_methods[0] in {plan.where}").whole("speculative_tokens")
    architectures = target.need("architectures")
    if not isinstance(architectures, list):
        raise InputError(f"architectures in {target.where} must be a list of names, got {architectures!r:.60}")
    name = target.need("name_or_path")
    return {"target": name, "target_architectures": tuple(map(str, architectures)), "speculative_tokens": tokens}


class LlamaLayout(Layout):
    """What SGLang and the EAGLE repository share: the fields of one Llama config.json."""

    whole_map = True
    architectures: ClassVar[dict[str, str]]
    """The architecture of each kind of head."""

    def _options(self, fields: Fields) -> dict[str, Any]:
        """Options of an EAGLE-3 head beyond those of the EAGLE repository."""
        return {}

    def _option_fields(self, config: HeadConfig) -> dict[str, Any]:
        return {}

    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        kind = "eagle3" if "draft_vocab_size" in fields.left else "eagle1"
        architectures, sizes = fields.need("architectures"), fields.layer()
        if architectures != [self.architectures[kind]]:
            raise InputError(
                f"architectures must be [{self.architectures[kind]}] for a head of kind {kind}, which "
                f"{'has' if kind == 'eagle3' else 'lacks'} draft_vocab_size, got {architectures!r:.80}"
            )
        options: dict[str, Any] = {}
        if kind == "eagle3":
            options = {
                "target_hidden_size": _unless(fields.take("target_hidden_size"), sizes["hidden_size"]),
                "draft_vocab_size": _unless(fields.whole("draft_vocab_size"), sizes["vocab_size"]),
                **self._options(fields),
            }
        config = HeadConfig(
            kind,
            **sizes,
            **options,
            fc_bias=fields.take("bias", kind == "eagle1"),
            own_embedding=own_embedding,
            target=fields.take("base_model"),
        )
        fields.finish()
        return config

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """Other libraries ignore `base_model`, the name of the target."""
        options: dict[str, Any] = {}
        if config.kind == "eagle3":
            options = {"draft_vocab_size": config.outputs, **self._option_fields(config)}
            if config.target_hidden_size is not None:
                options["target_hidden_size"] = config.target_hidden_size
        return {
            "architectures": [self.architectures[config.kind]],
            "base_model": config.target,
            "bias": config.fc_bias,
            "torch_dtype": str(dtype).removeprefix("torch."),
            **layer_fields(config),
            **options,
        }


class SGLang(LlamaLayout):
    """The layout of SGLang and SpecForge: `LlamaForCausalLMEagle3`, and `LlamaForCausalLMEagle` for EAGLE-1 and 2.

    Layer numbers are of the layers whose output is read, one below those of speculators: SpecForge names 1, n // 2 - 1
    and n - 4. `norm_output` is as in SGLang and in SpecForge since its pull request 879; before, SpecForge's own
    training code read the field in another sense.

    SpecForge's configs/qwen3-4b-eagle3.json says `tie_word_embeddings: true`, although its heads have an `lm_head` of
    their own and SGLang would not read that: such a file is refused. Heads of the architecture
    `Eagle3LlamaForCausalLM` are of another layout.
    """

    name = "sglang"
    architectures: ClassVar = {"eagle3": "LlamaForCausalLMEagle3", "eagle1": "LlamaForCausalLMEagle"}

    def owns(self, config: dict[str, Any]) -> bool:
        return config.get("architectures") in [[name] for name in self.architectures.values()]

    def refusal(self, config: HeadConfig) -> str | None:
        if config.kind == "eagle1" and not config.fc_bias:
            return "an EAGLE-1 head whose fc has no bias: SGLang's module always has one"
        if name := next((name for name in ("norm_before_fc", "norm_before_residual") if getattr(config, name)), None):
            return name
        if config.states != 3 and config.kind == "eagle3":
            return f"{config.states} hidden states of the target (layers): it reads three"
        if config.layers is not None and min(config.layers) == 0:
            return "the input of layer 0 (layers): it reads outputs of layers"
        return None

    def _options(self, fields: Fields) -> dict[str, Any]:
        options = fields.options("fc_norm", "norm_output")
        if "eagle_config" in fields.left:
            more = fields.object("eagle_config")
            options["layers"] = more.layer_numbers("eagle_aux_hidden_state_layer_ids", 1)
            if more.take("use_aux_hidden_state", True) is not True:
                raise InputError(f"use_aux_hidden_state in {more.where} must be true for a head of kind eagle3")
            more.finish()
        return options

    def _option_fields(self, config: HeadConfig) -> dict[str, Any]:
        flags: dict[str, Any] = {name: getattr(config, name) for name in ("fc_norm", "norm_output")}
        if config.layers is None:
            return flags
        outputs = [layer - 1 for layer in config.layers]
        return flags | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": outputs, "use_aux_hidden_state": True}}


class EagleRepository(LlamaLayout):
    """The layout of SafeAILab/EAGLE: `layers.0.*` for EAGLE-1 and 2, `midlayer.*` for EAGLE-3; no newer options."""

    name = "eagle"
    certain = False
    architectures: ClassVar = {"eagle3": "LlamaForCausalLM", "eagle1": "LlamaForCausalLM"}

    def owns(self, config: dict[str, Any]) -> bool:
        return config.get("architectures") == ["LlamaForCausalLM"]

    def refusal(self, config: HeadConfig) -> str | None:
        if config.kind == "eagle3" and config.fc_bias:
            return "a bias of fc (fc_bias)"
        options = (*EAGLE3_OPTIONS, "layers", "attention_bias", "mlp_bias")
        return next((f"{name}={value}" for name in options if (value := getattr(config, name))), None)


LAYOUTS: tuple[Layout, ...] = (Speculators(), SGLang(), EagleRepository())


def layout_named(name: str) -> Layout:
    """The layout with this name; raises InputError for an unknown name."""
    names = [layout.name for layout in LAYOUTS]
    if name not in names:
        raise InputError(f"layout must be one of {', '.join(names)}, got {name!r:.60}")
    return LAYOUTS[names.index(name)]
