"""The first position at which two greedy texts of one prompt differ, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from reference.models import TARGET, Pair, load_target
from spectheory.core.errors import InputError

SLACK = 2.0
"""A shortfall of this many times the largest rounding seen on the two texts still counts as rounding. The engine's own
kernels round differently from the ones that are compared here, and a text has many positions."""
OTHER_TYPES = {torch.bfloat16: torch.bfloat16, torch.float16: torch.float16, torch.float32: torch.float64}
"""The type whose logits are compared with those in float32, by the type in which the server computes."""
Verdict = Literal["equal", "rounding", "not explained"]


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
    position = _first_difference(one, other)
    if position is None:
        return None
    logits = pair.target(torch.tensor([prompt + one[:position]], device=pair.device)).logits[0, -1].float()
    return _divergence(position, one, other, logits)


def _first_difference(one: list[int], other: list[int]) -> int | None:
    return next((i for i, tokens in enumerate(zip(one, other, strict=False)) if tokens[0] != tokens[1]), None)


def _divergence(position: int, one: list[int], other: list[int], logits: torch.Tensor) -> Divergence:
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
        places: for each text, the position of its largest shortfall; None if every token is the greedy choice.
    """

    divergence: Divergence | None
    shortfall: float
    rounding: float
    places: tuple[int | None, int | None]

    @property
    def verdict(self) -> Verdict:
        """Whether the texts are equal, differ by no more than rounding explains, or contain another token."""
        if self.shortfall > SLACK * self.rounding:
            return "not explained"
        return "equal" if self.divergence is None else "rounding"


def compare_texts(
    prompt: str | Sequence[int],
    one: str | Sequence[int],
    other: str | Sequence[int],
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
        prompt: the prompt with its chat template, as text or as token ids.
        one: the first text, such as the one without speculation. Token ids are exact; a text is tokenised again.
        other: the second text, such as the one with speculation.
        target: local folder of the target.
        dtype: the type in which the server computes.
        device: device for the target.

    Raises:
        InputError: the folder or the device cannot be used, or a text is empty or has unknown tokens.
    """
    if dtype not in OTHER_TYPES:
        raise InputError(f"dtype must be one of {', '.join(map(str, OTHER_TYPES))}, got {dtype}")
    model, tokenizer = load_target(target, device=device)
    given = {"prompt": prompt, "one": one, "other": other}
    start, first, second = (_tokens(name, text, tokenizer, model.config.vocab_size) for name, text in given.items())
    texts = first, second
    exact = [_logits(model, start, text) for text in texts]
    del model
    rounded_model, _ = load_target(target, device=device, dtype=OTHER_TYPES[dtype])
    judged = [
        _judged(text, logits, _logits(rounded_model, start, text)) for text, logits in zip(texts, exact, strict=True)
    ]
    shortfalls, roundings, places = zip(*judged, strict=True)
    position = _first_difference(first, second)
    divergence = None if position is None else _divergence(position, first, second, exact[0][position])
    return TextComparison(divergence, max(shortfalls), max(roundings), (places[0], places[1]))


def _judged(tokens: Sequence[int], exact: torch.Tensor, rounded: torch.Tensor) -> tuple[float, float, int | None]:
    """The largest shortfall of a text, the largest rounding seen on it, and the position of the shortfall."""
    best = exact.topk(2).indices
    candidates = torch.cat([best[:, 1:], torch.tensor(tokens)[:, None]], 1)
    gaps = [logits.gather(1, best[:, :1]) - logits.gather(1, candidates) for logits in (exact, rounded)]
    shortfall, place = gaps[0][:, 1].max(0)
    return float(shortfall), float((gaps[0] - gaps[1]).abs().max()), int(place) if shortfall > 0 else None


@torch.inference_mode()
def _logits(model: PreTrainedModel, prompt: list[int], text: list[int]) -> torch.Tensor:
    """The logits from which each token of the text is chosen, in float64: tokens x vocabulary."""
    ids = torch.tensor([prompt + text[:-1]], device=model.device)
    return model(ids).logits[0, len(prompt) - 1 :].double().cpu()


def _tokens(name: str, given: str | Sequence[int], tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> list[int]:
    special = name == "prompt"
    ids = tokenizer(given, add_special_tokens=special)["input_ids"] if isinstance(given, str) else list(given)
    if not ids:
        raise InputError(f"{name} must have at least one token, got none: give a text")
    wrong = [token for token in ids if not isinstance(token, int) or not 0 <= token < vocabulary]
    if wrong:
        raise InputError(f"{name} must be text or token ids from 0 to {vocabulary - 1}, got {wrong[0]!r:.60}")
    return ids
