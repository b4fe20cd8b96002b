"""`HeadStep`: the forward of a head in training-time unrolling, pass after pass."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache

from reference.heads.modules import Head, ParallelHead
from reference.losses.passes import attended
from spectheory.core.errors import InputError


class HeadStep:
    """The forward of a head for one batch, a `Step` for `reference.losses.unrolling.unroll`.

    Row r of the first call has the feature of position r and the token of position r + 1. In call i, row r has the
    output that call i - 1 returned for it and the token of position r + 1 + i, so it computes what the head computes at
    depth i of a draft that starts at r. Its position is r + i, and keys and values of all calls are kept. Gradients
    pass through them. Texts start at row 0 and are padded on the right, if at all: a row attends to all rows before it.

    A parallel head has one forward: call i returns its marginals at depth i + 1, and the outputs of the first call.
    """

    def __init__(self, head: Head) -> None:
        self.head = head
        self.cache = DynamicCache()
        self.calls = 0
        self.outputs: Tensor | None = None

    def __call__(
        self, features: Float[Tensor, "B L hidden"], tokens: Int[Tensor, "B L"]
    ) -> tuple[Float[Tensor, "B L hidden"], Float[Tensor, "B L V"]]:
        """Outputs and logits for features and tokens.

        Raises:
            InputError: a parallel head has no further depth.
        """
        if self.outputs is None or not isinstance(self.head, ParallelHead):
            self.outputs = self._forward(features, tokens)
        self.calls += 1
        return self.outputs, self._logits(self.outputs)

    def _forward(self, features: Tensor, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = torch.zeros(length, (self.calls + 1) * length, dtype=features.dtype)
        mask.masked_fill_(~attended(length, self.calls), torch.finfo(features.dtype).min)
        return self.head(
            tokens,
            features,
            position_ids=torch.arange(self.calls, self.calls + length, device=tokens.device)[None],
            attention_mask=mask[None, None].to(tokens.device),
            past_key_values=self.cache,
        )

    def _logits(self, outputs: Tensor) -> Tensor:
        """The logits of the present call."""
        if not isinstance(self.head, ParallelHead):
            return self.head.logits(outputs)
        if self.calls > (most := len(self.head.blocks)):
            raise InputError(f"passes must be at most {most}, the depths of this parallel head, got {self.calls}")
        return self.head.marginal(outputs, self.calls)
