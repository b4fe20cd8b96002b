"""The first position at which two greedy texts of one prompt differ, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from reference.models import TARGET, Attention, Pair, load_target
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
    position = next((i for i, tokens in enumerate(zip(one, other, strict=False)) if tokens[0] != tokens[1]), None)
    if position is None:
        return None
    logits = pair.target(torch.tensor([prompt + one[:position]], device=pair.device)).logits[0, -1].float()
    tokens = (one[position], other[position])
    return Divergence(position, tokens, (float(logits[tokens[0]]), float(logits[tokens[1]])))


@dataclass(frozen=True)
class GreedyText:
    """How well a text is the greedy text of a model, token by token, given the tokens before.

    Attributes:
        tokens: number of tokens.
        others: number of tokens that are not the most probable one in float32.
        shortfall: by how much the logit of such a token is below the largest logit, at most.
        position: where that is; None if every token is the most probable one.
        rounding: largest change of the difference between the largest logit and the logits of the next candidate and of
            the text's token, from float32 to the server's type.
    """

    tokens: int
    others: int
    shortfall: float
    position: int | None
    rounding: float


@dataclass(frozen=True)
class TextComparison:
    """Two greedy texts of one prompt, judged by the target in float32.

    Attributes:
        divergence: where they first differ; None if one is a prefix of the other.
        words: the two tokens there, as text.
        texts: each text against the greedy choice of float32.
        dtype: the type in which the server computes.
    """

    divergence: Divergence | None
    words: tuple[str, str] | None
    texts: tuple[GreedyText, GreedyText]
    dtype: str

    @property
    def rounding(self) -> float:
        """The largest rounding seen on the two texts."""
        return max(text.rounding for text in self.texts)

    @property
    def shortfall(self) -> float:
        """The largest shortfall of the two texts."""
        return max(text.shortfall for text in self.texts)

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
    attention: Attention = "sdpa",
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
        attention: attention implementation of transformers.

    Raises:
        InputError: the folder or the device cannot be used, or a text is empty or has unknown tokens.
    """
    if dtype not in OTHER_TYPES:
        raise InputError(f"dtype must be one of {', '.join(map(str, OTHER_TYPES))}, got {dtype}")
    model, tokenizer = load_target(target, device=device, attention=attention)
    start = _tokens("prompt", prompt, tokenizer, model.config.vocab_size)
    texts = [
        _after(name, prompt, start, text, tokenizer, model.config.vocab_size)
        for name, text in (("one", one), ("other", other))
    ]
    exact = [_logits(model, start, text) for text in texts]
    del model
    rounded_model, _ = load_target(target, device=device, dtype=OTHER_TYPES[dtype], attention=attention)
    rounded = [_logits(rounded_model, start, text) for text in texts]
    position = next((i for i, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), None)
    divergence = words = None
    if position is not None:
        tokens = texts[0][position], texts[1][position]
        row = exact[0][position]
        divergence = Divergence(position, tokens, (float(row[tokens[0]]), float(row[tokens[1]])))
        words = str(tokenizer.decode([tokens[0]])), str(tokenizer.decode([tokens[1]]))
    judged = [_judged(*rows) for rows in zip(texts, exact, rounded, strict=True)]
    return TextComparison(divergence, words, (judged[0], judged[1]), str(dtype).removeprefix("torch."))


def _judged(tokens: Sequence[int], exact: torch.Tensor, rounded: torch.Tensor) -> GreedyText:
    chosen = torch.tensor(tokens)[:, None]
    best = exact.topk(2).indices
    candidates = torch.cat([best[:, 1:], chosen], 1)
    gaps = [logits.gather(1, best[:, :1]) - logits.gather(1, candidates) for logits in (exact, rounded)]
    shortfalls = gaps[0][:, 1]
    worst = int(shortfalls.argmax())
    others = int((shortfalls > 0).sum())
    return GreedyText(
        len(tokens),
        others,
        float(shortfalls[worst]),
        worst if others else None,
        float((gaps[0] - gaps[1]).abs().max()),
    )


@torch.inference_mode()
def _logits(model: PreTrainedModel, prompt: list[int], text: list[int]) -> torch.Tensor:
    """The logits from which each token of the text is chosen, in float64: tokens x vocabulary."""
    ids = torch.tensor([prompt + text[:-1]], device=model.device)
    return model(ids).logits[0, len(prompt) - 1 :].double().cpu()


def _tokens(name: str, given: str | Sequence[int], tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> list[int]:
    ids = tokenizer(given)["input_ids"] if isinstance(given, str) else list(given)
    if not ids:
        raise InputError(f"{name} must have at least one token, got none: give a text")
    wrong = [token for token in ids if not isinstance(token, int) or not 0 <= token < vocabulary]
    if wrong:
        raise InputError(f"{name} must be text or token ids from 0 to {vocabulary - 1}, got {wrong[0]!r:.60}")
    return ids


def _after(
    name: str,
    prompt: str | Sequence[int],
    start: list[int],
    given: str | Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: int,
) -> list[int]:
    """The tokens of a text after the prompt. Text is tokenised together with the prompt where that keeps its tokens."""
    if isinstance(given, str) and isinstance(prompt, str):
        whole = _tokens(name, prompt + given, tokenizer, vocabulary)
        if whole[: len(start)] == start and len(whole) > len(start):
            return whole[len(start) :]
    if isinstance(given, str):
        given = tokenizer(given, add_special_tokens=False)["input_ids"]
    return _tokens(name, given, tokenizer, vocabulary)
