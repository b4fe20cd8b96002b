"""`ForcedDraft`, what the judge asks of a draft or a head: its logits at every position of given texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float32
from torch import Tensor

from reference.drafters import Drafter
from reference.models import Pair, weights_hash
from reference.replaying import followed
from reference.sampling import Sampling
from reference.teacher_forcing import check_rows, padded
from spectheory.core.errors import InputError
from spectheory.core.tree import LARGEST_TREE


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
        self, pair: Pair, requests: list[tuple[list[int], list[int]]], first: int, *, features: bool = False
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

        They are there if a draft `reads_features`.
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


class ForcedDraft(ABC):
    """A draft of one target that the judge can read by teacher forcing.

    Attributes:
        name: its folder, or another name to show.
        weights: a hash of its weights. Drafts with the same hash are the same draft.
        vocab_size: size of its vocabulary.
        context: maximum number of tokens of a text.
        reads_features: whether `logits` reads the target's hidden states.
        deepest: maximum depth of its drafts.
    """

    reads_features: bool = False
    deepest: int = LARGEST_TREE
    name: str
    weights: str
    vocab_size: int
    context: int

    @abstractmethod
    def logits(self, batch: ForcedBatch) -> Float32[Tensor, "D B T V"]:
        """The logits after each token of prompts and texts, by depth in the cycle.

        Entry [d, b, t] is for the token after `batch.tokens[b, t]` where the cycle has drafted the last d of these
        tokens; the last depth holds for deeper nodes too. D is 1 for a draft that does not depend on the depth.

        Raises:
            LogitsError: they are not distributions.
        """

    def follow(
        self, drafter: Drafter, prompt: list[int], text: list[int], sampling: Sampling
    ) -> list[tuple[int, int, int]]:
        """(Start, accepted tokens, depth of the draft) of each cycle with dynamic trees on a text.

        Raises:
            InputError: this draft cannot grow dynamic trees.
        """
        raise InputError(f"{self.name} cannot grow dynamic trees: evaluate it with a static tree")


class ModelDraft(ForcedDraft):
    """The draft model of a pair. Its distribution does not depend on the depth.

    Args:
        pair: the target of the texts with the draft.
    """

    def __init__(self, pair: Pair) -> None:
        pair.require_draft_model("teacher forcing of a draft")
        self.pair, self.name = pair, pair.names[1]
        self.vocab_size, self.context = pair.vocab_size, pair.context
        self.weights = weights_hash(pair.draft)

    def logits(self, batch: ForcedBatch) -> Tensor:
        """See ForcedDraft.logits."""
        model: Any = self.pair.draft
        logits = model(batch.tokens).logits[..., : self.vocab_size].float()
        check_rows(logits, f"draft {self.name}", model.dtype, batch.first)
        return logits[None]

    @torch.inference_mode()
    def follow(
        self, drafter: Drafter, prompt: list[int], text: list[int], sampling: Sampling
    ) -> list[tuple[int, int, int]]:
        """See ForcedDraft.follow."""
        return followed(self.pair, drafter, prompt, text, sampling)
