"""The first position at which two greedy texts of one prompt differ, and whether rounding explains it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import PreTrainedModel

from reference.models import TARGET, load_pair
from reference.token_checks import check_tokens
from spectheory.core.errors import InputError

SLACK = 2.0
"""A shortfall of this many times the largest rounding seen on the two texts still counts as rounding. The engine's own
kernels round differently from the ones that are compared here, and a text has many positions."""
OTHER_TYPES = {torch.bfloat16: torch.bfloat16, torch.float16: torch.float16, torch.float32: torch.float64}
"""The type whose logits are compared with those in float32, by the type in which the server computes."""


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
def first_divergence(target: PreTrainedModel, prompt: list[int], one: list[int], other: list[int]) -> Divergence | None:
    """Where the texts `one` and `other` first differ; None if one is a prefix of the other."""
    position = next((i for i, tokens in enumerate(zip(one, other, strict=False)) if tokens[0] != tokens[1]), None)
    if position is None:
        return None
    logits = target(torch.tensor([prompt + one[:position]], device=target.device)).logits[0, -1].float()
    tokens = one[position], other[position]
    return Divergence(position, tokens, (float(logits[tokens[0]]), float(logits[tokens[1]])))


@dataclass(frozen=True)
class TextComparison:
    """Two greedy texts of one prompt, judged by the target in float32.

    Attributes:
        divergence: where they first differ; None if one is a prefix of the other.
        shortfall: by how much the logit of a token of a text is below the largest logit there, at most; 0 if every
            token is the greedy choice.
        rounding: largest change of such differences between logits, from float32 to the server's type.
    """

    divergence: Divergence | None
    shortfall: float
    rounding: float

    @property
    def verdict(self) -> Literal["equal", "rounding", "not explained"]:
        """Whether the texts are equal, differ by no more than rounding explains, or contain another token."""
        if self.shortfall > SLACK * self.rounding:
            return "not explained"
        return "equal" if self.divergence is None else "rounding"


@torch.inference_mode()
def compare_texts(
    prompt: list[int],
    one: list[int],
    other: list[int],
    *,
    target: str | Path = TARGET,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> TextComparison:
    """Tell rounding from bugs: compare two greedy texts of one prompt by the target's own logits.

    The target reads both texts in float32, so every token is judged given the same tokens before it. Greedy text has
    the largest logit everywhere. Where it has not, the difference is compared with what `dtype` changes in the logits
    of the same model on the same texts.

    Args:
        prompt: token ids of the prompt with its chat template.
        one: token ids of the first text, such as the one without speculation.
        other: token ids of the second text, such as the one with speculation.
        target: the target, as for `load_pair`.
        dtype: the type in which the server computes.
        device: device for the target.

    Raises:
        InputError: the folder or the device cannot be used, or a text is empty or has unknown tokens.
    """
    if dtype not in OTHER_TYPES:
        raise InputError(f"dtype must be one of {', '.join(map(str, OTHER_TYPES))}, got {dtype}")
    exact = load_pair(target, None, device=device).target
    for name, tokens in {"prompt": prompt, "one": one, "other": other}.items():
        check_tokens(name, tokens, exact.config.vocab_size)
        if not tokens:
            raise InputError(f"{name} must have at least one token, got none: give a text")
    rounded = load_pair(target, None, device=device, dtype=OTHER_TYPES[dtype]).target
    shortfall = rounding = 0.0
    for text in (one, other):
        ids = torch.tensor([prompt + text], device=exact.device)
        logits = [model(ids).logits[0, len(prompt) - 1 : -1].double() for model in (exact, rounded)]
        best = logits[0].topk(2).indices
        candidates = torch.cat([best[:, 1:], ids[0, len(prompt) :, None]], 1)
        gaps = [rows.gather(1, best[:, :1]) - rows.gather(1, candidates) for rows in logits]
        shortfall = max(shortfall, float(gaps[0][:, 1].max()))
        rounding = max(rounding, float((gaps[0] - gaps[1]).abs().max()))
    return TextComparison(first_divergence(exact, prompt, one, other), shortfall, rounding)
