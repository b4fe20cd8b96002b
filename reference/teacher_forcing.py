"""Both models' distributions at every position of a text that is already there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from reference.forced_logits import BATCH, ForcedBatch, draft_logits
from reference.heads import Head
from reference.host_arrays import to_host
from reference.models import Pair
from reference.sampling import Sampling
from reference.token_checks import check_continued
from spectheory.core.errors import InputError
from spectheory.replay import TargetText

DEPTHS = 8
"""At how many depths of a cycle the distributions of a draft head are computed; the last one holds for deeper nodes."""
UNITS = 4
"""Rounding error of a logit in units of the last place of the largest logit in its row: about twice what forwards of
different shapes differ by in bfloat16 and float16."""
LEAST_ROUNDING = 1e-5
"""Smallest relative rounding error of a logit. In float32 the errors of many sums add up, to about a tenth of this."""
STEPS = 6
"""How often the change of the logits is doubled, up to the rounding error, until the text's token is kept."""


def forced_texts(
    pair: Pair, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling, depths: int = DEPTHS
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
        depths: at how many depths of a cycle q of a draft head is computed; see `draft_logits`.

    Raises:
        InputError: temperature 0, prompts and texts are not those of this pair (see `check_continued`), or the target
            gives a token probability 0, even after a change of its logits within their rounding error.
        LogitsError: a model returns logits that are not a distribution.
    """
    if sampling.greedy:
        raise InputError("temperature must be above 0 for texts with probabilities, got 0: replay greedy text by ranks")
    check_continued(pair, prompts, texts)
    return _forced_texts(pair, prompts, texts, sampling, depths)


@torch.inference_mode()
def _forced_texts(
    pair: Pair, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling, depths: int
) -> Iterator[TargetText]:
    """`forced_texts` after its checks."""
    requests = list(zip(prompts, texts, strict=True))
    for first in range(0, len(requests), BATCH):
        batch = ForcedBatch(pair, requests[first : first + BATCH], first, features=isinstance(pair.draft, Head))
        offered = draft_logits(pair, batch, depths)
        for place, (_, text) in enumerate(batch.requests):
            span = batch.span(place)
            p = target_rows(batch.target_logits[place, span], text, sampling, pair.target.dtype)
            yield TargetText(np.array(text), p, normalised(sampling.distribution(offered[:, place, span])))


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


def normalised(rows: Float[Tensor, "*rows V"]) -> Float64[np.ndarray, "*rows V"]:
    """The rows on the host in float64, with sums of 1 to its precision."""
    values = to_host(rows).astype(np.float64)
    return values / values.sum(-1, keepdims=True)
