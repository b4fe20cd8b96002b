"""`Speculators`, the layout of vllm-project/speculators. Checked against @c05b95b."""

from __future__ import annotations

from typing import Any

import torch

from reference.heads.config import HeadConfig
from reference.heads.fields import Fields, layer_fields
from reference.heads.layouts.layout import EAGLE3_OPTIONS, Layout, other_than, type_name
from spectheory.core.errors import InputError


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
        options = fields.flags(*EAGLE3_OPTIONS[:3])
        options["norm_before_residual"] = fields.stated_flag("norm_before_residual", why)
        config = HeadConfig(
            "eagle3",
            **sizes,
            **options,
            **_speculation(plan),
            own_embedding=own_embedding,
            target_hidden_size=other_than(fields.take("target_hidden_size"), sizes["hidden_size"]),
            draft_vocab_size=other_than(fields.whole("draft_vocab_size"), sizes["vocab_size"]),
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
            "dtype": type_name(dtype),
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
