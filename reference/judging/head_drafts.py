"""`HeadDraft`: the probabilities of a draft head at every position and depth of given texts."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.drafters import Drafter
from reference.heads import Head, HeadStep
from reference.judging.drafts import ForcedBatch, ForcedDraft
from reference.losses.unrolling import unroll
from reference.models import Pair, weights_hash
from reference.replaying import followed
from reference.sampling import Sampling
from reference.teacher_forcing import check_rows
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
        self.deepest = pair.draft.config.depths or self.deepest
        self.depths = min(depths, self.deepest)
        self.vocab_size, self.context = pair.vocab_size, pair.context
        self.weights = weights_hash(pair.draft)

    def logits(self, batch: ForcedBatch) -> Tensor:
        """See ForcedDraft.logits.

        Where a text has too few tokens before a position, the entry is that of the depth above. After the first token
        of all nothing can be drafted: its logits are 0.
        """
        states = torch.cat([batch.hidden_states[tap] for tap in self.head.taps], -1)
        features, tokens, length = self.head.fuse(states)[:, :-1], batch.tokens[:, 1:], batch.tokens.shape[1]
        found = states.new_zeros((self.depths, *batch.tokens.shape, self.vocab_size), dtype=torch.float32)
        for depth, one in enumerate(unroll(HeadStep(self.head), features, tokens, self.depths)):
            if depth:
                found[depth] = found[depth - 1]
            drafted = self.head.on_vocabulary(one.logits)[:, : length - 1 - depth, : self.vocab_size]
            found[depth, :, depth + 1 :] = drafted
            check_rows(found[depth], f"draft {self.name}", self.head.dtype, batch.first)
        return found

    @torch.inference_mode()
    def follow(
        self, drafter: Drafter, prompt: list[int], text: list[int], sampling: Sampling
    ) -> list[tuple[int, int, int]]:
        """See ForcedDraft.follow."""
        return followed(self.pair, drafter, prompt, text, sampling)
