"""Logits of a target whose likely successors are written down."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def logits_for(likely: dict[int, list[int]], tokens: Sequence[int]) -> torch.Tensor:
    """(n, 300) logits behind each of `tokens`: falling for those that may follow, far lower for all others."""
    logits = torch.full((len(tokens), 300), -30.0)
    for row, token in enumerate(tokens):
        for rank, successor in enumerate(likely.get(token, [])):
            logits[row, successor] = -rank
    return logits
