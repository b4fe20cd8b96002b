"""`SGLang`, the layout of SGLang and SpecForge.

Checked against sgl-project/SpecForge @a6b6b02, and SGLang's llama_eagle.py and llama_eagle3.py.
"""

from __future__ import annotations

from typing import Any, ClassVar

from reference.heads.config import HeadConfig
from reference.heads.fields import Fields
from reference.heads.layouts.llama import LlamaLayout
from spectheory.core.errors import InputError


class SGLang(LlamaLayout):
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
