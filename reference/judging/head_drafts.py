"""`HeadDraft`: the probabilities of a draft head at every position and depth of given texts."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.drafters import Drafter
from reference.forced_logits import ForcedBatch, draft_logits
from reference.heads import Head
from reference.judging.drafts import ForcedDraft
from reference.models import Pair, weights_hash
from reference.replaying import followed
from reference.sampling import Sampling
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError


class HeadDraft(ForcedDraft):
    """The draft head of a pair. Its distribution depends on how many of the last tokens the cycle has drafted.

    Its features of these tokens are its own outputs, as in decoding; before them it reads the target's states.

    Args:
        pair: the target of the texts with the head.
        depths: number of depths that are computed: at least the depth of the trees that are judged, because the
            last depth is used for all deeper nodes. A parallel head has no more than its own.

    Raises:
        InputError: the draft of the pair is not a head, or `depths` is below 1.
    """

    reads_features = True

    def __init__(self, pair: Pair, depths: int) -> None:
        check_whole("depths", depths, 1)
        if not isinstance(pair.draft, Head):
            raise InputError(f"{pair.names[1]} is a draft model, not a draft head: read it with ModelDraft")
        self.pair, self.head, self.name = pair, pair.draft, pair.names[1]
        self.deepest = pair.deepest or self.deepest
        self.depths = min(depths, self.deepest)
        self.vocab_size, self.context = pair.vocab_size, pair.context
        self.weights = weights_hash(pair.draft)

    def logits(self, batch: ForcedBatch) -> Tensor:
        """See ForcedDraft.logits, and `draft_logits` for the tokens with too few before them."""
        return draft_logits(self.pair, batch, self.depths)

    @torch.inference_mode()
    def follow(
        self, drafter: Drafter, prompt: list[int], text: list[int], sampling: Sampling
    ) -> list[tuple[int, int, int]]:
        """See ForcedDraft.follow."""
        return followed(self.pair, drafter, prompt, text, sampling)
