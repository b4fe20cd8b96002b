"""`EagleRepository`, the layout of SafeAILab/EAGLE. Checked against @cb7e084."""

from __future__ import annotations

from typing import Any, ClassVar

from reference.heads.config import HeadConfig
from reference.heads.layouts.layout import EAGLE3_OPTIONS
from reference.heads.layouts.llama import LlamaLayout


class EagleRepository(LlamaLayout):
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
