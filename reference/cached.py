"""A stock Hugging Face model and its KV cache: tree forwards, and keeping the accepted path only."""

from __future__ import annotations

import time

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel


def additive_mask(attend: Tensor, dtype: torch.dtype) -> Tensor:
    """A boolean mask (True = attend) as the values that are added to attention scores: right in eager and SDPA."""
    return torch.zeros(attend.shape, dtype=dtype).masked_fill(~attend, torch.finfo(dtype).min)


class CachedModel:
    """One sequence in one model. `length` tokens lie in the cache; `seconds` adds up the time of its forwards.

    Logits are cut to `vocab_size`: models pad their output layers to different sizes.
    """

    def __init__(self, model: PreTrainedModel, vocab_size: int) -> None:
        self.model = model
        self.device = model.device
        self.vocab_size = vocab_size
        self.cache = DynamicCache()
        self.length = 0
        self.seconds = 0.0

    def forward(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (n,) one after another; logits (n, V) in float32."""
        return self._call(tokens, torch.arange(self.length, self.length + len(tokens), device=self.device)[None], None)

    def forward_tree(self, tokens: Tensor, depth: Tensor, mask: Tensor, committed: int) -> Tensor:
        """Append nodes of a tree that hangs below the first `committed` cached tokens; logits (n, V) in float32.

        Args:
            tokens: (n,) tokens of the new nodes.
            depth: (n,) their positions relative to `committed`.
            mask: (n, length - committed + n) additive mask over the nodes cached behind `committed`, then the new ones.
            committed: cached tokens that every node attends to.
        """
        seen = mask.new_zeros(len(tokens), committed)
        return self._call(tokens, (depth + committed)[None], torch.cat([seen, mask], dim=1)[None, None])

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
        """Keep the first `committed` cached tokens and behind them those at `committed + offsets`; drop the rest.

        `offsets` is increasing. Nothing is copied where they are 0, 1, 2, ...
        """
        self.length = committed + len(offsets)
        stay = offsets == list(range(len(offsets)))
        source = None if stay else torch.tensor(offsets, device=self.device) + committed
        for layer in self.cache.layers:
            for name in ("keys", "values"):
                rows = getattr(layer, name)
                if source is not None:
                    rows[:, :, committed : self.length] = rows[:, :, source]
                setattr(layer, name, rows[:, :, : self.length])
