"""The first position at which two greedy texts of one prompt differ, and the two logits there."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reference.models import Pair


@dataclass(frozen=True)
class Divergence:
    """The first position at which two texts differ, with the two tokens and the target's two logits there."""

    position: int
    tokens: tuple[int, int]
    logits: tuple[float, float]

    @property
    def margin(self) -> float:
        """Absolute difference of the two logits; below the rounding error, about 1e-5 in float32, they tie."""
        return abs(self.logits[0] - self.logits[1])

    def __str__(self) -> str:
        return (
            f"texts diverge at token {self.position}: {self.tokens[0]} (logit {self.logits[0]:.6f}) and "
            f"{self.tokens[1]} (logit {self.logits[1]:.6f}), {self.margin:.1e} apart"
        )


@torch.inference_mode()
def first_divergence(pair: Pair, prompt: list[int], one: list[int], other: list[int]) -> Divergence | None:
    """Where the texts `one` and `other` first differ; None if one is a prefix of the other."""
    position = next((i for i, tokens in enumerate(zip(one, other, strict=False)) if tokens[0] != tokens[1]), None)
    if position is None:
        return None
    logits = pair.target(torch.tensor([prompt + one[:position]], device=pair.device)).logits[0, -1].float()
    tokens = (one[position], other[position])
    return Divergence(position, tokens, (float(logits[tokens[0]]), float(logits[tokens[1]])))
