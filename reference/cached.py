"""A stock Hugging Face model and its KV cache: tree forwards, and keeping the accepted path only."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor
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
        self.clock = _cuda_clock if self.device.type == "cuda" else time.perf_counter

    def forward(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (n,) one after another; logits (n, V) in float32."""
        return self._call(tokens)

    def mask(self, attend: np.ndarray) -> Tensor:
        """A boolean mask (True = attend) as the values that are added to attention scores: right in eager and SDPA."""
        return torch.from_numpy(np.where(attend, np.float32(0), self.lowest)).to(self.device, self.dtype)

    def forward_tree(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Append nodes of a tree; logits (n, V) in float32.

        Args:
            tokens: (n,) tokens of the new nodes.
            positions: (n,) theirs, the number of tokens before each on its way from the beginning of the text.
            mask: (n, length + n) additive mask over what is cached, then the new nodes.
        """
        return self._call(tokens, position_ids=positions[None], attention_mask=mask[None, None])

    def _call(self, tokens: Tensor, **where: Tensor) -> Tensor:
        started = self.clock()
        logits = self.model(tokens[None], past_key_values=self.cache, use_cache=True, **where).logits[0]
        self.seconds += self.clock() - started
        self.length += len(logits)
        if logits.shape[1] > self.vocab_size:
            logits = logits[:, : self.vocab_size]
        return logits.float()

    def keep(self, committed: int, offsets: list[int]) -> None:
        """Keep the first `committed` cached tokens and behind them those at `committed + offsets`; drop the rest."""
        self.length = committed + len(offsets)
        self.cache.keep(committed, offsets)


def _cuda_clock() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()
