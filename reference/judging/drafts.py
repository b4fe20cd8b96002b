"""`ForcedDraft`, what the judge asks of a draft: its logits at every position of given texts, by depth in the cycle."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float32
from torch import Tensor

from reference.drafters import Drafter
from reference.forced_logits import DEPTHS, ForcedBatch, draft_logits
from reference.heads import Head
from reference.models import Pair, weights_hash
from reference.replaying import followed
from reference.sampling import Sampling
from spectheory.core.checks import check_whole
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


class PairDraft(ForcedDraft):
    """The draft of a pair, a model or a head.

    Args:
        pair: the target of the texts with the draft.
        depths: for a head, the number of depths that are computed: at least the depth of the trees that are judged,
            because the last depth is used for all deeper nodes. A parallel head has no more than its own.

    Raises:
        InputError: `depths` is below 1.
    """

    def __init__(self, pair: Pair, depths: int = DEPTHS) -> None:
        check_whole("depths", depths, 1)
        self.pair, self.depths, self.name = pair, depths, pair.names[1]
        self.reads_features = isinstance(pair.draft, Head)
        self.deepest = pair.deepest or self.deepest
        self.vocab_size, self.context = pair.vocab_size, pair.context
        self.weights = weights_hash(pair.draft)

    def logits(self, batch: ForcedBatch) -> Tensor:
        """See ForcedDraft.logits and `draft_logits`."""
        return draft_logits(self.pair, batch, self.depths)

    @torch.inference_mode()
    def follow(
        self, drafter: Drafter, prompt: list[int], text: list[int], sampling: Sampling
    ) -> list[tuple[int, int, int]]:
        """See ForcedDraft.follow."""
        return followed(self.pair, drafter, prompt, text, sampling)
