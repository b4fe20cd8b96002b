"""Logits of a target with given likely successors."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def logits_for(likely: dict[int, list[int]], tokens: Sequence[int]) -> torch.Tensor:
    """(n, 300) logits after each of `tokens`: decreasing over its likely successors, far lower for all other tokens."""
    logits = torch.full((len(tokens), 300), -30.0)
    for row, token in enumerate(tokens):
        for rank, successor in enumerate(likely.get(token, [])):
            logits[row, successor] = -rank
    return logits
