"""A stock Hugging Face model and its KV cache: tree forwards, and keeping the accepted path only."""

from __future__ import annotations

import time

import torch
from torch import Tensor
from transformers import PreTrainedModel

from reference.rows import RowCache
from reference.tree_rows import TreeRows


class CachedModel:
    """One sequence in one model. `length` tokens lie in the cache; `seconds` adds up the time of its forwards.

    Logits are cut to `vocab_size`: models pad their output layers to different sizes.
    """

    def __init__(self, model: PreTrainedModel, vocab_size: int) -> None:
        self.model = model
        self.device = model.device
        self.dtype = model.dtype
        self.vocab_size = vocab_size
        self.cache = RowCache(model.config.num_hidden_layers)
        self.length = 0
        self.seconds = 0.0
        self.clock = _cuda_clock if self.device.type == "cuda" else time.perf_counter

    def forward(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (n,) one after another; logits (n, V) in float32."""
        return self._call(tokens)

    def rows(self) -> TreeRows:
        """For the nodes of trees that this model reads."""
        return TreeRows(self.dtype, self.device)

    def forward_tree(self, tokens: Tensor, committed: int, rows: TreeRows, first: int = 0) -> Tensor:
        """Append nodes of a tree that hangs below the first `committed` tokens; logits (n, V) in float32.

        Args:
            tokens: (n,) of the new nodes; behind the committed ones the cache holds the `first` nodes before them.
            committed: as said.
            rows: what the nodes attend to.
            first: number of the first new node in it.
        """
        positions, mask = rows.behind(committed, first, first + tokens.shape[0])
        return self._call(tokens, position_ids=positions, attention_mask=mask)

    def _call(self, tokens: Tensor, **where: Tensor) -> Tensor:
        started = self.clock()
        logits = self.model(tokens.unsqueeze(0), past_key_values=self.cache, use_cache=True, **where).logits
        self.seconds += self.clock() - started
        _, count, width = logits.shape
        self.length += count
        if width > self.vocab_size:
            logits = logits[:, :, : self.vocab_size]
        return logits.squeeze(0) if logits.dtype is torch.float32 else logits.squeeze(0).float()

    def keep(self, committed: int, offsets: list[int]) -> None:
        """Keep the first `committed` cached tokens and behind them those at `committed + offsets`; drop the rest."""
        self.length = committed + len(offsets)
        self.cache.keep(committed, offsets)


def _cuda_clock() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()
