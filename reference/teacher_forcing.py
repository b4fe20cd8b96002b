"""Both models' distributions at every position of a text that is already there, from one forward each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from reference.host_arrays import to_host
from reference.logits import Peaks, settle
from reference.models import Pair
from reference.sampling import Sampling
from spectheory.core.errors import InputError
from spectheory.replay import TargetText

BATCH = 4
"""Texts per forward: the logits of a batch are what needs the most memory."""


@torch.inference_mode()
def forced_texts(
    pair: Pair, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling
) -> Iterator[TargetText]:
    """Each text with p and q at its positions, in order; one batch of texts is in memory at a time.

    Args:
        pair: target and draft.
        prompts: the tokens before each text.
        texts: tokens that the target generated under `sampling`.
        sampling: temperature, top-k and top-p of the texts, above temperature 0.

    Raises:
        InputError: prompt and text do not fit the context, temperature 0, or a token that the target gives
            probability 0.
        LogitsError: a model returns logits that are not a distribution.
    """
    if sampling.greedy:
        raise InputError("temperature must be above 0 for texts with probabilities, got 0: replay greedy text by ranks")
    for first in range(0, len(texts), BATCH):
        batch = list(zip(prompts[first : first + BATCH], texts[first : first + BATCH], strict=True))
        rows = [_rows(pair, role, batch, first) for role in ("target", "draft")]
        for place, (prompt, text) in enumerate(batch):
            span = slice(len(prompt) - 1, len(prompt) + len(text) - 1)
            p, q = (_normalised(sampling.distribution(logits[place, span])) for logits in rows)
            yield TargetText(np.array(text), p, q)


def _rows(pair: Pair, role: str, batch: list[tuple[list[int], list[int]]], first: int) -> Tensor:
    """(B, T, V) float32 logits after each token of prompt and text, padded on the right."""
    longest = max(len(prompt) + len(text) for prompt, text in batch)
    if longest > pair.context:
        raise InputError(f"prompt and text need a context of {longest}, these models have {pair.context}: shorten them")
    tokens = torch.zeros(len(batch), longest, dtype=torch.int64)
    for row, (prompt, text) in enumerate(batch):
        tokens[row, : len(prompt) + len(text)] = torch.tensor(prompt + text)
    model, name = getattr(pair, role), pair.names[role == "draft"]
    logits = model(tokens.to(pair.device)).logits[..., : pair.vocab_size].float()
    peaks = Peaks(f"{role} {name}", model.dtype)
    peaks.see(logits.flatten(0, 1), lambda row: f"after token {row % longest + 1} of request {first + row // longest}")
    settle(peaks)
    return logits


def _normalised(rows: Tensor) -> np.ndarray:
    """The rows on the host in float64, with sums of 1 to its precision."""
    values = to_host(rows).astype(np.float64)
    return values / values.sum(-1, keepdims=True)
