"""`HeadDraft`: a draft head as the judge reads it, at every position and depth of given texts."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.heads import Head, HeadStep, ParallelHead
from reference.judging.drafts import ForcedBatch, ForcedDraft
from reference.losses.unrolling import unroll
from reference.models import Pair, weights_hash
from reference.teacher_forcing import check_rows
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError


class HeadDraft(ForcedDraft):
    """The draft head of a pair. Its distribution depends on how many of the last tokens the cycle has drafted.

    Its features of these tokens are its own outputs, as in decoding; before them it reads the target's states.

    Args:
        pair: the target of the texts with the head.
        depths: number of depths that are computed: at least the depth of the trees that are judged, because the last
            depth stands for all deeper nodes.

    Raises:
        InputError: the draft of the pair is no head, or `depths` is below 1 or beyond those of a parallel head.
    """

    reads_features = True

    def __init__(self, pair: Pair, depths: int) -> None:
        check_whole("depths", depths, 1)
        if not isinstance(pair.draft, Head):
            raise InputError(f"{pair.names[1]} is a draft model, not a draft head: read it with ModelDraft")
        if depths > (most := pair.draft.config.depths or depths):
            raise InputError(f"depths must be at most {most}, the depths of this parallel head, got {depths}")
        self.head, self.depths, self.name = pair.draft, depths, pair.names[1]
        self.vocab_size, self.context = pair.vocab_size, pair.context
        self.weights = weights_hash(pair.draft)

    def logits(self, batch: ForcedBatch) -> Tensor:
        """See ForcedDraft.logits.

        Where a text has too few tokens before a position, the entry is that of the depth above. After the first token
        of all nothing can be drafted: its logits are 0.
        """
        states = torch.cat([batch.hidden_states[tap] for tap in self.head.taps], -1)
        rows, length = self._passes(self.head.fuse(states)[:, :-1], batch.tokens[:, 1:]), batch.tokens.shape[1]
        found = states.new_zeros((self.depths, *batch.tokens.shape, self.vocab_size), dtype=torch.float32)
        for depth, drafted in enumerate(rows):
            if depth:
                found[depth] = found[depth - 1]
            found[depth, :, depth + 1 :] = self.head.on_vocabulary(drafted)[:, : length - 1 - depth, : self.vocab_size]
            check_rows(found[depth], f"draft {self.name}", self.head.dtype, batch.first)
        return found

    def _passes(self, features: Tensor, tokens: Tensor) -> list[Tensor]:
        """For each depth the logits (B, T - 1, V); row r is for a draft that starts after token r + 1."""
        if isinstance(self.head, ParallelHead):
            return list(self.head.marginals(self.head(tokens, features)).unbind(-2))[: self.depths]
        return [one.logits for one in unroll(HeadStep(self.head), features, tokens, self.depths)]
