"""A stock Hugging Face model with its KV cache: it reads a tree and keeps the rows of the accepted path."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor
from transformers import PreTrainedModel

from reference.heads import Head
from reference.host_arrays import Array, numpy_on_host
from reference.logits import Peaks
from reference.random_streams import Uniforms
from reference.row_cache import RowCache
from reference.tree_rows import TreeRows


class CachedModel:
    """One model and the cache of one text.

    Models pad their output layers to different sizes, so logits are cut to `vocab_size`. Logits that give no
    probabilities raise LogitsError, which names the model by `name`: at once on a CPU, later on a GPU, see `Peaks`.

    Attributes:
        taps: numbers of the hidden states that each forward stores in `states`; none by default. State i enters layer
            i, the last one has passed the final norm.
        states: hidden states of the last forward, concatenated.
    """

    taps: tuple[int, ...] = ()
    states: Float[Tensor, "n states"]

    def __init__(self, model: PreTrainedModel | Head, vocab_size: int, name: str = "the model") -> None:
        self.model = model
        self.device = model.device
        self.dtype = model.dtype
        self.vocab_size = vocab_size
        self.cache = RowCache(model.config.num_hidden_layers)
        self.peaks = Peaks(name, model.dtype)

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""
        return self.cache.rows

    def read(self, prompt: Int[Tensor, "1 n"]) -> None:
        """Read the prompt."""
        self.forward(prompt)

    def forward(self, tokens: Int[Tensor, "1 n"]) -> Float32[Tensor, "n V"]:
        """Append `tokens` to the text and return their logits."""
        return self._call(tokens)

    def rows(self) -> TreeRows:
        """An empty table of masks and positions for the trees that this model reads."""
        return TreeRows(self.dtype, self.device)

    def forward_tree(
        self, tokens: Int[Tensor, "1 n"], committed: int, rows: TreeRows, first: int = 0
    ) -> Float32[Tensor, "n V"]:
        """Append nodes of a tree, whose root follows the committed text, and return their logits.

        Args:
            tokens: token ids of the new nodes.
            committed: number of committed tokens; they come first in the cache.
            rows: attention masks and positions of the tree's nodes.
            first: index in `rows` of the first new node; the cache already holds nodes 0 to first - 1.
        """
        positions, mask = rows.after(committed, first, first + tokens.shape[1])
        return self._call(tokens, position_ids=positions, attention_mask=mask)

    def fed(self, tokens: Sequence[int]) -> Int[Tensor, "1 n"]:
        """`tokens` as `forward` takes them; NumPy converts a list faster than torch."""
        return torch.from_numpy(np.array([tokens])).to(self.device)

    def run(
        self,
        key: tuple[Hashable, ...],
        tokens: Sequence[int],
        rows: int,
        rng: Uniforms | None,
        work: Callable[[Tensor, Uniforms | None], Any],
        kept: object,
    ) -> Any:
        """`work(fed, rng)`: forwards that add `rows` rows to the cache, the first of the `tokens` that come next.

        A GPU repeats all of it as one graph: `key` says which operators run, and `kept` holds all tensors they read.
        """
        return work(self.fed(tokens), rng)

    def _call(self, tokens: Tensor, **where: Tensor) -> Tensor:
        first, positions = self.cache.rows + 1, where.get("position_ids")
        logits = self._model_logits(tokens, **where)
        self.peaks.see(
            logits, lambda row: f"after token {first + row if positions is None else int(positions[0, row]) + 1}"
        )
        return logits

    def _model_logits(self, tokens: Int[Tensor, "1 n"], **where: Tensor) -> Float32[Tensor, "n V"]:
        options: dict[str, Any] = {"output_hidden_states": True} if self.taps else {}
        output = self.model(tokens.to(self.device), past_key_values=self.cache, use_cache=True, **where, **options)
        if self.taps:
            self.states = torch.cat([output.hidden_states[tap][0] for tap in self.taps], -1)
        logits = output.logits
        if logits.shape[2] > self.vocab_size:
            logits = logits[:, :, : self.vocab_size]
        return logits.squeeze(0) if logits.dtype is torch.float32 else logits.squeeze(0).float()

    def most_probable(self, logits: Float32[Tensor, "n V"]) -> Array:
        """The tokens (n,) of the largest logits of the last forward."""
        return numpy_on_host(logits).argmax(-1)

    def keep(self, committed: int, offsets: list[int]) -> int:
        """Keep the first `committed` cached tokens and those at `committed + offsets`; return how many of the latter.

        All others are dropped.
        """
        self.cache.keep(committed, offsets)
        return len(offsets)
