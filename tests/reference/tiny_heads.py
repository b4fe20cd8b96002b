"""Tiny targets with random weights, and heads for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from reference.heads import Eagle3Head, Head, HeadConfig, new_head

LAYERS, VOCABULARY = 4, 40
EAGLE1 = HeadConfig("eagle1", 32, 48, VOCABULARY, 4, 2, 8, fc_bias=True)
EAGLE3 = HeadConfig("eagle3", 32, 48, VOCABULARY, 4, 2, 8, draft_vocab_size=24)
WHOLE = replace(EAGLE3, draft_vocab_size=None, own_embedding=False)
LAYERS3 = replace(EAGLE3, layers=(1, 2, 3))
NORMED = replace(EAGLE3, norm_before_residual=True, layers=(0, 1, 2, 3))
CONFIGS = {
    "eagle1": EAGLE1,
    "eagle1 without bias": replace(EAGLE1, fc_bias=False, own_embedding=False),
    "eagle3": EAGLE3,
    "whole vocabulary": WHOLE,
    "chosen layers": LAYERS3,
    "other residual": NORMED,
}


def random_head(config: HeadConfig, seed: int = 0, dtype: torch.dtype = torch.float32) -> Head:
    """A head with random weights of about the size of its inputs, norms included, and a random draft vocabulary."""
    torch.manual_seed(seed)
    head = new_head(config)
    for parameter in head.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    if isinstance(head, Eagle3Head) and config.draft_vocab_size is not None:
        head.set_vocabulary(torch.randperm(config.vocab_size)[: config.draft_vocab_size].sort().values)
    return head.to(dtype).eval().requires_grad_(False)


def random_target(layers: int = LAYERS, seed: int = 1, dtype: torch.dtype = torch.float64, **sizes: Any) -> Any:
    """A Llama target whose text does not settle on one token."""
    torch.manual_seed(seed)
    given: dict[str, Any] = {"hidden_size": 32, "vocab_size": VOCABULARY, **sizes}
    config = LlamaConfig(
        num_hidden_layers=layers,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        **given,
    )
    model: Any = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    model.generation_config.eos_token_id = None
    return model.to(dtype).eval().requires_grad_(False)
