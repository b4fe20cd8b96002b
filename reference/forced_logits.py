"""Teacher forcing: the logits of both models at every position of texts that are already there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from reference.heads import Head, HeadStep
from reference.logits import Peaks, settle
from reference.losses.passes import unroll
from reference.models import Pair

BATCH = 4
"""Texts per forward: the logits of a batch are what needs the most memory."""


class ForcedBatch:
    """A few prompts with their texts, as one forward reads them. The target reads them once for all drafts.

    Args:
        pair: the target, and any draft of its vocabulary.
        requests: prompts with their texts.
        first: number of the first request, for error messages.
        features: whether a draft reads the target's hidden states.

    Attributes:
        tokens: (B, T) prompts and texts, padded on the right.
    """

    def __init__(
        self, pair: Pair, requests: Sequence[tuple[list[int], list[int]]], first: int, *, features: bool = False
    ) -> None:
        self.pair, self.requests, self.first, self.features = pair, requests, first, features
        self.tokens = padded(requests).to(pair.device)

    def span(self, place: int) -> slice:
        """The positions of a row of logits that predict the text of a request."""
        prompt, text = self.requests[place]
        return slice(len(prompt) - 1, len(prompt) + len(text) - 1)

    @cached_property
    def target_logits(self) -> Float32[Tensor, "B T V"]:
        """The target's logits after each token."""
        return self._target[0]

    @cached_property
    def hidden_states(self) -> tuple[Tensor, ...]:
        """The target's hidden states (B, T, hidden size): the embeddings, then the output of each layer.

        They are there if a draft reads `features`.
        """
        found = self._target[1]
        assert found is not None
        return found

    @cached_property
    def _target(self) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        model: Any = self.pair.target
        out = model(self.tokens, output_hidden_states=self.features)
        logits = out.logits[..., : self.pair.vocab_size].float()
        check_rows(logits, f"target {self.pair.names[0]}", model.dtype, self.first)
        return logits, out.hidden_states


def draft_logits(pair: Pair, batch: ForcedBatch, depths: int) -> Float32[Tensor, "D B T V"]:
    """The draft's logits after each token of a batch, by depth in the cycle.

    Entry [d, b, t] is for the token after `batch.tokens[b, t]` where the cycle has drafted the last d of these tokens.
    A draft model has D = 1, because its logits do not depend on the depth. A draft head's features of drafted tokens
    are its own outputs, as in decoding; before them it reads the target's states. Its D is `depths`, or as many as a
    parallel head has. Where a text has too few tokens before a position, the entry of a head is that of the depth
    above; after the first token of all nothing can be drafted, and its logits are 0.

    Raises:
        LogitsError: they are not distributions.
    """
    name, draft = f"draft {pair.names[1]}", pair.draft
    if not isinstance(draft, Head):
        logits = draft(batch.tokens).logits[..., : pair.vocab_size].float()
        check_rows(logits, name, draft.dtype, batch.first)
        return logits[None]
    states = torch.cat([batch.hidden_states[tap] for tap in draft.taps], -1)
    features, tokens, length = draft.fuse(states)[:, :-1], batch.tokens[:, 1:], batch.tokens.shape[1]
    found = states.new_zeros((pair.depths_of(depths), *batch.tokens.shape, pair.vocab_size), dtype=torch.float32)
    for depth, one in enumerate(unroll(HeadStep(draft), features, tokens, len(found))):
        if depth:
            found[depth] = found[depth - 1]
        drafted = draft.on_vocabulary(one.logits)[..., : pair.vocab_size]
        found[depth, :, depth + 1 :] = drafted[:, : max(0, length - 1 - depth)]
        check_rows(found[depth], name, draft.dtype, batch.first)
    return found


def padded(batch: Sequence[tuple[list[int], list[int]]]) -> Int64[Tensor, "B T"]:
    """Tokens of prompts and their texts, padded on the right."""
    longest = max(len(prompt) + len(text) for prompt, text in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.int64)
    for row, (prompt, text) in enumerate(batch):
        tokens[row, : len(prompt) + len(text)] = torch.tensor([*prompt, *text])
    return tokens


def check_rows(logits: Float[Tensor, "B T V"], name: str, dtype: torch.dtype, first: int) -> None:
    """Check the logits of a model called `name` after each token of the requests from `first` on.

    Raises:
        LogitsError: they are not distributions.
    """
    peaks, longest = Peaks(name, dtype), logits.shape[1]
    peaks.see(logits.flatten(0, 1), lambda row: f"after token {row % longest + 1} of request {first + row // longest}")
    settle(peaks)
