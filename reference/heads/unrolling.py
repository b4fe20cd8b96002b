"""`HeadStep`: the forward of a head in training-time unrolling, pass after pass."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache

from reference.heads.modules import Head
from reference.losses.unrolling import attended


class HeadStep:
    """The forward of a head for one batch, a `Step` for `reference.losses.unrolling.unroll`.

    Row r of the first call has the feature of position r and the token of position r + 1. In call i, row r has the
    output that call i - 1 returned for it and the token of position r + 1 + i, so it computes what the head computes at
    depth i of a draft that starts at r. Its position is r + i, and keys and values of all calls are kept. Gradients
    pass through them.
    """

    def __init__(self, head: Head) -> None:
        self.head = head
        self.cache = DynamicCache()
        self.calls = 0

    def __call__(self, features: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (B, L, hidden) and logits (B, L, V) for features (B, L, hidden) and tokens (B, L)."""
        length = tokens.shape[1]
        mask = torch.zeros(length, (self.calls + 1) * length, dtype=features.dtype)
        mask.masked_fill_(~attended(length, self.calls), torch.finfo(features.dtype).min)
        outputs = self.head(
            tokens,
            features,
            position_ids=torch.arange(self.calls, self.calls + length, device=tokens.device)[None],
            attention_mask=mask[None, None].to(tokens.device),
            past_key_values=self.cache,
        )
        self.calls += 1
        return outputs, self.head.logits(outputs)
