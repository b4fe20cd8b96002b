"""Both models' distributions at every position of a text that is already there, from one forward each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from reference.host_arrays import to_host
from reference.logits import Peaks, settle
from reference.models import Pair
from reference.sampling import Sampling
from reference.token_checks import check_continued
from spectheory.core.errors import InputError
from spectheory.replay import TargetText

BATCH = 4
"""Texts per forward: the logits of a batch are what needs the most memory."""
UNITS = 4
"""Rounding error of a logit in units of the last place of the largest logit in its row: about twice what forwards of
different shapes differ by in bfloat16 and float16."""
LEAST_ROUNDING = 1e-5
"""Smallest relative rounding error of a logit. In float32 the errors of many sums add up, to about a tenth of this."""
STEPS = 6
"""How often the change of the logits is doubled, up to the rounding error, until the text's token is kept."""


def forced_texts(
    pair: Pair, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling
) -> Iterator[TargetText]:
    """Each text with p and q at its positions, in order; one batch of texts is in memory at a time.

    The forward of a whole text rounds differently from the forwards that generated it. Near the boundary of top-k or
    top-p, or far down at a low temperature, its p may be 0 at a token that was sampled. There p is taken from the
    logits after the smallest change within their rounding error that keeps the token: the token and all less probable
    ones rise, the more probable ones fall. A token that is further away is refused.

    Args:
        pair: target and draft.
        prompts: the tokens before each text.
        texts: tokens that the target generated under `sampling`.
        sampling: temperature, top-k and top-p of the texts, above temperature 0.

    Raises:
        InputError: temperature 0, prompts and texts are not those of this pair (see `check_continued`), or the target
            gives a token probability 0, even after a change of its logits within their rounding error.
        LogitsError: a model returns logits that are not a distribution.
    """
    if sampling.greedy:
        raise InputError("temperature must be above 0 for texts with probabilities, got 0: replay greedy text by ranks")
    check_continued(pair, prompts, texts)
    pair.require_draft_model("a replay with probabilities")
    return _forced_texts(pair, prompts, texts, sampling)


@torch.inference_mode()
def _forced_texts(
    pair: Pair, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling
) -> Iterator[TargetText]:
    """`forced_texts` after its checks."""
    for first in range(0, len(texts), BATCH):
        batch = list(zip(prompts[first : first + BATCH], texts[first : first + BATCH], strict=True))
        rows = [_rows(pair, role, batch, first) for role in ("target", "draft")]
        for place, (prompt, text) in enumerate(batch):
            span = slice(len(prompt) - 1, len(prompt) + len(text) - 1)
            target, draft = (logits[place, span] for logits in rows)
            p = target_rows(target, text, sampling, pair.target.dtype)
            yield TargetText(np.array(text), p, normalised(sampling.distribution(draft)))


def target_rows(
    logits: Float[Tensor, "n V"], text: list[int], sampling: Sampling, dtype: torch.dtype
) -> Float64[np.ndarray, "n V"]:
    """P at the positions of a text of n tokens, of the target's logits in `dtype`; see `forced_texts`."""
    p = sampling.distribution(logits)
    _keep_tokens(p, logits, text, sampling, dtype)
    return normalised(p)


def rounding_errors(logits: Float[Tensor, "*n V"], dtype: torch.dtype) -> Float[Tensor, "*n"]:
    """How much the logits of two forwards in `dtype` may differ by rounding."""
    largest = logits.abs().masked_fill(logits.isinf(), 0).amax(-1)
    return largest * max(UNITS * torch.finfo(dtype).eps, LEAST_ROUNDING)


def _keep_tokens(p: Tensor, logits: Tensor, text: list[int], sampling: Sampling, dtype: torch.dtype) -> None:
    """Replace the rows of `p` (n, V) that exclude the token of the text by a rounding error of `logits` (n, V)."""
    tokens = torch.tensor(text, device=p.device)
    for position in (p.gather(1, tokens[:, None])[:, 0] == 0).nonzero()[:, 0].tolist():
        row, token = logits[position], text[position]
        largest = rounding_errors(row, dtype)
        nearer = torch.where(row > row[token], -1.0, 1.0)
        for step in range(STEPS - 1, -1, -1):
            changed = sampling.distribution(row + nearer * (largest / 2**step))
            if changed[token] > 0:
                p[position] = changed
                break


def _rows(pair: Pair, role: str, batch: list[tuple[list[int], list[int]]], first: int) -> Float32[Tensor, "B T V"]:
    """Logits after each token of prompt and text, padded on the right."""
    model = getattr(pair, role)
    logits = model(padded(batch).to(pair.device)).logits[..., : pair.vocab_size].float()
    check_rows(logits, f"{role} {pair.names[role == 'draft']}", model.dtype, first)
    return logits


def padded(batch: Sequence[tuple[list[int], list[int]]]) -> Int64[Tensor, "B T"]:
    """Tokens of prompts and their texts, padded on the right."""
    longest = max(len(prompt) + len(text) for prompt, text in batch)
    tokens = torch.zeros(len(batch), longest, dtype=torch.int64)
    for row, (prompt, text) in enumerate(batch):
        tokens[row, : len(prompt) + len(text)] = torch.tensor([*prompt, *text])
    return tokens


def check_rows(logits: Float[Tensor, "B T V"], name: str, dtype: torch.dtype, first: int) -> None:
    """Check the logits of a model called `name` after each token of the requests from `first` on.

    Raises:
        LogitsError: they are not distributions.
    """
    peaks, longest = Peaks(name, dtype), logits.shape[1]
    peaks.see(logits.flatten(0, 1), lambda row: f"after token {row % longest + 1} of request {first + row // longest}")
    settle(peaks)


def normalised(rows: Float[Tensor, "*rows V"]) -> Float64[np.ndarray, "*rows V"]:
    """The rows on the host in float64, with sums of 1 to its precision."""
    values = to_host(rows).astype(np.float64)
    return values / values.sum(-1, keepdims=True)
