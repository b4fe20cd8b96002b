"""Draft heads with their KV cache: they read the target's hidden states at a text, and their own outputs at drafts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from reference.cached_model import CachedModel
from reference.heads import Head
from reference.tree_rows import TreeRows


class CachedHead(CachedModel):
    """One draft head and the cache of one text.

    Row i of the cache belongs to token i + 1 of the text, and was computed from this token and from the feature of the
    token before it. After the text come the rows of drafted tokens. Their features are outputs of the head itself, so
    `keep` drops all of them: an accepted token is read anew, with the feature that the target gives it.

    Logits are of all tokens of the target. A token outside of the head's draft vocabulary has the logit -infinity.

    Attributes:
        features: the target's features of the tokens at the end of the text that the head has not read.
        outputs: outputs at the last row of the text and at the d drafted rows.
    """

    features: Float[Tensor, "m hidden"]
    outputs: Float[Tensor, "rows hidden"]

    def __init__(self, head: Head, vocab_size: int, name: str = "the head") -> None:
        super().__init__(head, vocab_size, name)
        self.head = head
        self.features = self.outputs = torch.empty(0, head.config.hidden_size, dtype=self.dtype, device=self.device)

    def observe(self, states: Float[Tensor, "n states"]) -> None:
        self.features = torch.cat([self.features, self.head.fuse(states)])

    def read(self, prompt: Int[Tensor, "1 n"]) -> None:
        """Read all tokens of the prompt but the first, which no feature precedes."""
        if prompt.shape[1] > 1:
            self._run_text(prompt[:, 1:])

    def forward(self, tokens: Int[Tensor, "1 n"]) -> Float32[Tensor, "n V"]:
        """Logits after `tokens`: tokens of the text, or one drafted token after the last row."""
        first = self.cache.rows + 2
        outputs = self._run_text(tokens) if len(self.features) else self._run_drafted(tokens, self.outputs[-1:])
        return self._logits(outputs, lambda row: first + row)

    def forward_tree(self, tokens: Tensor, committed: int, rows: TreeRows, first: int = 0) -> Tensor:
        """See CachedModel.forward_tree; `committed` is the number of rows of the text."""
        positions, mask = rows.after(committed, first, first + tokens.shape[1])
        parents = [parent + 1 for parent in rows.parents[first : first + tokens.shape[1]]]
        outputs = self._run_drafted(tokens, self.outputs[parents], position_ids=positions, attention_mask=mask)
        return self._logits(outputs, lambda row: int(positions[0, row]) + 2)

    def _run_text(self, tokens: Int[Tensor, "1 n"]) -> Float[Tensor, "n hidden"]:
        """Outputs at tokens of the text; their features are forgotten."""
        count = tokens.shape[1]
        features, self.features = self.features[:count], self.features[count:]
        outputs = self._run(tokens, features)
        self.outputs = outputs[-1:]
        return outputs

    def _run_drafted(
        self, tokens: Int[Tensor, "1 n"], features: Float[Tensor, "n hidden"], **where: Tensor
    ) -> Float[Tensor, "n hidden"]:
        outputs = self._run(tokens, features, **where)
        self.outputs = torch.cat([self.outputs, outputs])
        return outputs

    def _run(self, tokens: Tensor, features: Tensor, **where: Tensor) -> Tensor:
        return self.head(tokens, features[None], past_key_values=self.cache, **where)[0]

    def _logits(self, outputs: Float[Tensor, "n hidden"], read: Callable[[int], int]) -> Float32[Tensor, "n V"]:
        """Logits for outputs; row i has read the first `read(i)` tokens of a text."""
        logits = self.head.on_vocabulary(self.head.logits(outputs))[:, : self.vocab_size]
        self.peaks.see(logits, lambda row: f"after token {read(row)}")
        return logits

    def keep(self, committed: int, offsets: list[int]) -> int:
        """Keep the rows of the text, the first `committed`, and drop those of all drafted tokens."""
        self.outputs = self.outputs[:1]
        return super().keep(committed, [])
