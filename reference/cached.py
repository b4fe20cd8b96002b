"""A stock Hugging Face model and its KV cache: tree forwards, and keeping the accepted path only."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from reference.rows import RowCache


class CachedModel:
    """One sequence in one model. `length` tokens lie in the cache; `seconds` adds up the time of its forwards.

    Logits are cut to `vocab_size`: models pad their output layers to different sizes.
    """

    def __init__(self, model: PreTrainedModel, vocab_size: int) -> None:
        self.model = model
        self.device = model.device
        self.dtype = model.dtype
        self.lowest = np.float32(max(torch.finfo(model.dtype).min, torch.finfo(torch.float32).min))
        self.vocab_size = vocab_size
        self.cache = RowCache(model.config.num_hidden_layers)
        self.length = 0
        self.seconds = 0.0

    def forward(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (n,) one after another; logits (n, V) in float32."""
        return self._call(tokens, torch.arange(self.length, self.length + len(tokens), device=self.device)[None], None)

    def mask(self, attend: np.ndarray) -> Tensor:
        """A boolean mask (True = attend) as the values that are added to attention scores: right in eager and SDPA."""
        return torch.from_numpy(np.where(attend, np.float32(0), self.lowest)).to(self.device, self.dtype)

    def forward_tree(self, tokens: Tensor, depth: Tensor, mask: Tensor, committed: int) -> Tensor:
        """Append nodes of a tree that hangs below the first `committed` cached tokens; logits (n, V) in float32.

        Args:
            tokens: (n,) tokens of the new nodes.
            depth: (n,) their positions relative to `committed`.
            mask: (n, length - committed + n) additive mask over the nodes cached behind `committed`, then the new ones.
            committed: cached tokens that every node attends to.
        """
        return self._call(tokens, (depth + committed)[None], pad(mask, (committed, 0))[None, None])

    def _call(self, tokens: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        started = self._clock()
        logits = self.model(
            tokens[None], position_ids=positions, attention_mask=mask, past_key_values=self.cache, use_cache=True
        ).logits[0]
        self.seconds += self._clock() - started
        self.length += len(tokens)
        return logits[:, : self.vocab_size].float()

    def _clock(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def keep(self, committed: int, offsets: list[int]) -> None:
        """Keep the first `committed` cached tokens and behind them those at `committed + offsets`; drop the rest."""
        self.length = committed + len(offsets)
        self.cache.keep(committed, offsets)
