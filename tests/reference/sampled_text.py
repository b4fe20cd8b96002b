"""Texts of transformers' own decoding, and logits for drafters without a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from transformers import LlamaForCausalLM

from reference.models import Pair
from reference.train.target import Recipe

TINY = Recipe(vocab_size=300, length=1024, layers=2, width=64, hidden=128)


def restless(model: LlamaForCausalLM, seed: int, scale: float) -> None:
    """Add noise to all matrices: a random model whose text does not settle on one token."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data += scale * torch.randn(parameter.shape, generator=generator)


def generated(pair: Pair, prompt: list[int], new_tokens: int, stop: int | None = None) -> list[int]:
    """What transformers' own greedy decoding of the target gives, in its precision and on its device; once for all."""
    return list(_generated(pair.target, tuple(prompt), new_tokens, stop))


@cache
def _generated(target: Any, prompt: tuple[int, ...], new_tokens: int, stop: int | None) -> list[int]:
    text = target.generate(
        torch.tensor([prompt], device=target.device),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long, device=target.device),
        do_sample=False,
        max_new_tokens=new_tokens,
        eos_token_id=stop,
        pad_token_id=0,
    )
    return text[0, len(prompt) :].tolist()


def logits_for(likely: dict[int, list[int]], tokens: Sequence[int]) -> torch.Tensor:
    """(n, 300) logits after each of `tokens`: decreasing over its likely successors, far lower for all other tokens."""
    logits = torch.full((len(tokens), 300), -30.0)
    for row, token in enumerate(tokens):
        for rank, successor in enumerate(likely.get(token, [])):
            logits[row, successor] = -rank
    return logits
