"""`ForcedDraft`, what the judge asks of a draft or a head: its logits at every position of given texts."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float32
from torch import Tensor

from reference.drafters import Drafter
from reference.forced_logits import ForcedBatch, draft_logits
from reference.models import Pair, weights_hash
from reference.replaying import followed
from reference.sampling import Sampling
from spectheory.core.errors import InputError
from spectheory.core.tree import LARGEST_TREE


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
        return draft_logits(self.pair, batch, 1)

    @torch.inference_mode()
    def follow(
        self, drafter: Drafter, prompt: list[int], text: list[int], sampling: Sampling
    ) -> list[tuple[int, int, int]]:
        """See ForcedDraft.follow."""
        return followed(self.pair, drafter, prompt, text, sampling)
