"""The layouts of checkpoints: names of tensors and fields of config.json, in three libraries and in this package.

Checked against vllm-project/speculators @c05b95b, sgl-project/SpecForge @a6b6b02, SGLang's llama_eagle.py and
llama_eagle3.py, and SafeAILab/EAGLE @cb7e084.

Of public checkpoints, each layout says what was confirmed on 23 November 2026. It comes from configurations, names and
shapes that public code and issues quote; no checkpoint was at hand, so no list of tensors was read from one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch

from reference.heads.config import HeadConfig
from reference.heads.fields import Fields, layer_fields
from spectheory.core.errors import InputError

EAGLE3_OPTIONS = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")


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

    def prefix(self, config: HeadConfig) -> str:
        """The first part of the names of the layer's tensors."""
        return "layers.0." if config.kind == "eagle1" else "midlayer."

    def tensor_name(self, name: str, config: HeadConfig) -> str:
        """The name of the tensor that the module calls `name`."""
        return self.prefix(config) + rest if (rest := name.removeprefix("layer.")) != name else name


class Speculators(Layout):
    """The layout of vllm-project/speculators, which vLLM reads.

    Layer numbers are of the layers that a state enters. `norm_before_residual` must be stated, because speculators
    takes false for an absent field, and vLLM true.

    Confirmed: the fields of RedHatAI/gemma-4-31B-it-speculator.eagle3 (quoted in public code) and of a converted
    nm-testing/SpeculatorLlama3-1-8B-Eagle3 (pull request 53); `d2t` of 32,000 and `t2d` of 128,256 entries in the
    latter (pull request 50); `input_norm` over three states in RedHatAI/gpt-oss-20b-speculator.eagle3 (public code).
    Not confirmed: a whole list of the tensors of a RedHatAI head; and whether `fc_norm` and `norm_output` occur in one.
    """

    name = "speculators"

    def owns(self, config: dict[str, Any]) -> bool:
        """See Layout.owns."""
        return "speculators_model_type" in config or "speculators_config" in config

    def refusal(self, config: HeadConfig) -> str | None:
        """See Layout.refusal."""
        if config.kind != "eagle3":
            return f"a head of kind {config.kind}"
        return "a bias of fc (fc_bias)" if config.fc_bias else None

    def prefix(self, config: HeadConfig) -> str:
        """See Layout.prefix."""
        return "layers.0."

    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        """See Layout.read."""
        kind = fields.need("speculators_model_type")
        if kind != "eagle3":
            raise InputError(f"speculators_model_type must be eagle3, got {kind!r:.60}: no other kind is read")
        layer, plan = fields.object("transformer_layer_config"), fields.object("speculators_config")
        sizes = layer.layer()
        why = ": speculators takes false for an absent field, vLLM true; state it"
        options = {name: fields.flag(name) for name in EAGLE3_OPTIONS[:3]}
        options["norm_before_residual"] = fields.stated_flag("norm_before_residual", why)
        config = HeadConfig(
            "eagle3",
            **sizes,
            **options,
            **_speculation(plan),
            own_embedding=own_embedding,
            target_hidden_size=_other(fields.take("target_hidden_size"), sizes["hidden_size"]),
            draft_vocab_size=_other(fields.whole("draft_vocab_size"), sizes["vocab_size"]),
            layers=fields.layer_numbers("eagle_aux_hidden_state_layer_ids"),
        )
        for name in ("architectures", "embed_requires_grad", "speculators_version", "tie_word_embeddings"):
            fields.take(name)
        layer.take("architectures")
        for part in (layer, fields):
            part.finish()
        return config

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """See Layout.written."""
        proposal = {
            "accept_tolerance": 0.0,
            "proposal_type": "greedy",
            "speculative_tokens": config.speculative_tokens,
            "verifier_accept_k": 1,
        }
        return {
            "architectures": ["Eagle3DraftModel"],
            "draft_vocab_size": config.outputs,
            "dtype": _type_name(dtype),
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
    """What `speculators_config` says: the target, and how many tokens to draft."""
    if (algorithm := plan.need("algorithm")) != "eagle3":
        raise InputError(f"algorithm in {plan.where} must be eagle3, got {algorithm!r:.60}")
    methods, default = plan.need("proposal_methods"), plan.need("default_proposal_method")
    target = plan.object("verifier")
    named = target.need("name_or_path"), target.names("architectures")
    target.finish()
    plan.finish()
    if default != "greedy" or not isinstance(methods, list) or len(methods) != 1:
        raise InputError(f"proposal_methods in {plan.where} must be one method, greedy, got {methods!r:.120}")
    method = Fields(methods[0], f"proposal_methods[0] in {plan.where}")
    tokens = method.whole("speculative_tokens")
    for name, value in (("proposal_type", "greedy"), ("accept_tolerance", 0.0), ("verifier_accept_k", 1)):
        if (found := method.take(name, value)) != value:
            raise InputError(
                f"{name} in {method.where} must be {value}, got {found!r:.60}: other rules are not lossless"
            )
    method.finish()
    return {"target": named[0], "target_architectures": named[1], "speculative_tokens": tokens}


class _LlamaLayout(Layout):
    """What SGLang and the EAGLE repository share: the fields of one Llama config.json."""

    whole_map = True
    architectures: ClassVar[dict[str, str]]
    """The architecture of each kind of head."""

    def _options(self, fields: Fields) -> dict[str, Any]:
        """Options of an EAGLE-3 head beyond the EAGLE repository's."""
        return {}

    def _option_fields(self, config: HeadConfig) -> dict[str, Any]:
        """The fields of `_options`."""
        return {}

    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        """See Layout.read."""
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
                "target_hidden_size": _other(fields.take("target_hidden_size"), sizes["hidden_size"]),
                "draft_vocab_size": _other(fields.whole("draft_vocab_size"), sizes["vocab_size"]),
                **self._options(fields),
            }
        config = HeadConfig(
            kind,
            **sizes,
            **options,
            fc_bias=fields.flag("bias", kind == "eagle1"),
            own_embedding=own_embedding,
            target=fields.take("base_model"),
        )
        fields.finish()
        return config

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """See Layout.written. Other libraries ignore `base_model`, the name of the target."""
        options: dict[str, Any] = {}
        if config.kind == "eagle3":
            options = {"draft_vocab_size": config.outputs, **self._option_fields(config)}
            if config.target_hidden_size is not None:
                options["target_hidden_size"] = config.target_hidden_size
        return {
            "architectures": [self.architectures[config.kind]],
            "base_model": config.target,
            "bias": config.fc_bias,
            "torch_dtype": _type_name(dtype),
            **layer_fields(config),
            **options,
        }


class SGLang(_LlamaLayout):
    """The layout of SGLang and SpecForge: `LlamaForCausalLMEagle3`, and `LlamaForCausalLMEagle` for EAGLE-1 and 2.

    Layer numbers are of the layers whose output is read, one below those of speculators: SpecForge names 1, n // 2 - 1
    and n - 4. `norm_output` is as in SGLang and in SpecForge since its pull request 879; before, SpecForge's own
    training code read the field in another sense.

    Confirmed: all names and shapes of thoughtworks/Qwen3-32B-Eagle3 @ba10360 (a test in public code); the fields of
    SpecForge's configs/qwen3-30B-A3B-eagle3.1.json @581664a. SpecForge's configs/qwen3-4b-eagle3.json says
    `tie_word_embeddings: true`, although its heads have an `lm_head` of their own and SGLang would not read that: such
    a file is refused. Heads of the architecture `Eagle3LlamaForCausalLM` are of another layout.
    """

    name = "sglang"
    architectures: ClassVar = {"eagle3": "LlamaForCausalLMEagle3", "eagle1": "LlamaForCausalLMEagle"}

    def owns(self, config: dict[str, Any]) -> bool:
        """See Layout.owns."""
        return config.get("architectures") in [[name] for name in self.architectures.values()]

    def refusal(self, config: HeadConfig) -> str | None:
        """See Layout.refusal."""
        if config.kind not in self.architectures:
            return f"a head of kind {config.kind}"
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
        options: dict[str, Any] = {name: fields.flag(name) for name in ("fc_norm", "norm_output")}
        if "eagle_config" in fields.left:
            more = fields.object("eagle_config")
            outputs = more.layer_numbers("eagle_aux_hidden_state_layer_ids")
            options["layers"] = None if outputs is None else tuple(layer + 1 for layer in outputs)
            if not more.flag("use_aux_hidden_state", True):
                raise InputError(f"use_aux_hidden_state in {more.where} must be true for a head of kind eagle3")
            more.finish()
        return options

    def _option_fields(self, config: HeadConfig) -> dict[str, Any]:
        flags: dict[str, Any] = {name: getattr(config, name) for name in ("fc_norm", "norm_output")}
        if config.layers is None:
            return flags
        outputs = [layer - 1 for layer in config.layers]
        return flags | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": outputs, "use_aux_hidden_state": True}}


class EagleRepository(_LlamaLayout):
    """The layout of SafeAILab/EAGLE: `layers.0.*` for EAGLE-1 and 2, `midlayer.*` for EAGLE-3; no newer options.

    Confirmed: the fields of yuhuili/EAGLE-LLaMA3-Instruct-8B (speculators pull request 23) and of its 3.1 (pull request
    31), which are equal; that it has no `fc.bias` (NVIDIA/TensorRT-LLM issue 2588) but `layers.0.*` of attention and
    MLP (sgl-project/sglang issue 5773); `lm_head` (32000, 4096) in a head for Llama 3.1 8B (SafeAILab/EAGLE issue 249)
    and `q_proj` (4096, 5120) in AngelSlim/Qwen3-4B_eagle3 (issue 315); all names of wantsleep/OLMoE_1B_7B_Eagle3 (issue
    265). Not confirmed: a whole list of the tensors of yuhuili's heads, which are pickled and so never loaded here.
    """

    name = "eagle"
    certain = False
    architectures: ClassVar = {"eagle3": "LlamaForCausalLM", "eagle1": "LlamaForCausalLM"}

    def owns(self, config: dict[str, Any]) -> bool:
        """See Layout.owns."""
        return config.get("architectures") == ["LlamaForCausalLM"]

    def refusal(self, config: HeadConfig) -> str | None:
        """See Layout.refusal."""
        if config.kind not in self.architectures:
            return f"a head of kind {config.kind}"
        if config.kind == "eagle3" and config.fc_bias:
            return "a bias of fc (fc_bias)"
        options = (*EAGLE3_OPTIONS, "layers", "attention_bias", "mlp_bias")
        return next((f"{name}={value}" for name in options if (value := getattr(config, name))), None)


class Spectheory(Layout):
    """The layout of this package, which expresses every head. No other library reads it.

    Tensors have the names of the modules. config.json has the fields of `HeadConfig`, those of its layer under the
    names that every engine reads.
    """

    name = "spectheory"
    architecture: ClassVar[str] = "SpectheoryDraftHead"

    def owns(self, config: dict[str, Any]) -> bool:
        """See Layout.owns."""
        return config.get("architectures") == [self.architecture]

    def refusal(self, config: HeadConfig) -> str | None:
        """See Layout.refusal: nothing."""
        return None

    def tensor_name(self, name: str, config: HeadConfig) -> str:
        """See Layout.tensor_name: the name in the module."""
        return name

    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        """See Layout.read."""
        fields.take("architectures")
        config = HeadConfig(
            fields.need("kind"),
            **fields.layer(),
            **{name: fields.flag(name) for name in ("fc_bias", *EAGLE3_OPTIONS)},
            own_embedding=own_embedding,
            layers=fields.layer_numbers("layers"),
            target_architectures=fields.names("target_architectures"),
            speculative_tokens=fields.whole("speculative_tokens"),
            **{name: fields.take(name) for name in ("target", "target_hidden_size", "draft_vocab_size", "depths")},
        )
        fields.finish()
        return config

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """See Layout.written."""
        names = (
            *("kind", "fc_bias", *EAGLE3_OPTIONS, "layers", "target", "target_architectures", "speculative_tokens"),
            *("target_hidden_size", "draft_vocab_size", "depths"),
        )
        return {
            "architectures": [self.architecture],
            "torch_dtype": _type_name(dtype),
            **layer_fields(config),
            **{name: getattr(config, name) for name in names},
        }


LAYOUTS: tuple[Layout, ...] = (Speculators(), SGLang(), EagleRepository(), Spectheory())


def layout_named(name: str) -> Layout:
    """The layout with this name; raises InputError for an unknown name."""
    names = [layout.name for layout in LAYOUTS]
    if name not in names:
        raise InputError(f"layout must be one of {', '.join(names)}, got {name!r:.60}")
    return LAYOUTS[names.index(name)]


def _other(value: Any, default: int) -> Any:
    """`value`, or None if it equals the default."""
    return None if value == default else value


def _type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
