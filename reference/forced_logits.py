"""Teacher forcing: logits and distributions of both models at every position of texts that are already there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from reference.heads import Head, HeadStep
from reference.host_arrays import to_host
from reference.logits import Peaks, settle
from reference.losses.passes import unroll
from reference.models import Pair
from reference.sampling import Sampling
from reference.token_checks import check_continued
from spectheory.core.arrays import as_distributions
from spectheory.replay import GreedyText, TargetText

BATCH = 4
"""Texts per forward: the logits of a batch are what needs the most memory."""
DEPTHS = 8
"""At how many depths of a cycle the distributions of a draft head are computed; the last one holds for deeper nodes."""
UNITS = 4
"""Rounding error of a logit in units of the last place of the largest logit in its row: about twice what forwards of
different shapes differ by in bfloat16 and float16."""
LEAST_ROUNDING = 1e-5
"""Smallest relative rounding error of a logit. In float32 the errors of many sums add up, to about a tenth of this."""
STEPS = 6
"""How often the change of the logits is doubled, up to the rounding error, until the text's token is kept."""


def draft_logits(
    pair: Pair, tokens: Int64[Tensor, "B T"], hidden: Sequence[Tensor], depths: int, first: int, begin: int
) -> Float32[Tensor, "D B n V"]:
    """The draft's logits after each token of a batch from place `begin` on, by depth in the cycle.

    Entry [d, b, t] is for the token after `tokens[b, begin + t]` where the cycle has drafted the last d tokens.
    A draft model has D = 1, because its logits do not depend on the depth. A draft head's features of drafted tokens
    are its own outputs, as in decoding; before them it reads the target's `hidden` states. Its D is `depths`. Where a
    text has too few tokens before a position, the entry of a head is that of the depth above; after the first token of
    all nothing can be drafted, and its logits are 0. `first` is the number of the first request, for error messages.

    Raises:
        LogitsError: they are not distributions.
    """
    name, draft, length = f"draft {pair.names[1]}", pair.require_draft(), tokens.shape[1]
    if not isinstance(draft, Head):
        logits = draft(tokens, logits_to_keep=length - begin).logits[..., : pair.vocab_size].float()
        check_rows(logits, name, draft.dtype, first, begin)
        return logits[None]
    features = draft.fuse(torch.cat([hidden[tap] for tap in draft.taps], -1))[:, :-1]
    found = features.new_zeros((depths, len(tokens), length - begin, pair.vocab_size), dtype=torch.float32)
    for depth, one in enumerate(unroll(HeadStep(draft), features, tokens[:, 1:], depths)):
        if depth:
            found[depth] = found[depth - 1]
        place = max(begin, depth + 1)
        logits = one.logits[:, place - depth - 1 : max(0, length - depth - 1)]
        found[depth, :, place - begin :] = draft.on_vocabulary(logits)[..., : pair.vocab_size]
        check_rows(found[depth], name, draft.dtype, first, begin)
    return found


def check_rows(logits: Float[Tensor, "B n V"], name: str, dtype: torch.dtype, first: int, begin: int) -> None:
    """Check the logits of a model called `name` after each token from place `begin` on of the requests from `first` on.

    Raises:
        LogitsError: they are not distributions.
    """
    peaks, n = Peaks(name, dtype), logits.shape[1]
    peaks.see(logits.flatten(0, 1), lambda row: f"after token {begin + row % n + 1} of request {first + row // n}")
    settle(peaks)


def forced_texts(
    pair: Pair, prompts: Sequence[list[int]], texts: Sequence[list[int]], sampling: Sampling, depths: int = DEPTHS
) -> Iterator[TargetText | GreedyText]:
    """Each text with p and q at its positions, in order; one batch of texts is in memory at a time.

    At temperature 0 a text has the ranks of its tokens in the draft's whole vocabulary.

    The forward of a whole text rounds differently from the forwards that generated it. Near the boundary of top-k or
    top-p, or far down at a low temperature, its p may be 0 at a token that was sampled. There p is taken from the
    logits after the smallest change within their rounding error that keeps the token: the token and all less probable
    ones rise, the more probable ones fall. A token that is further away is refused.

    Args:
        pair: target and draft.
        prompts: the tokens before each text.
        texts: tokens that the target generated under `sampling`.
        sampling: temperature, top-k and top-p of the texts.
        depths: at how many depths of a cycle q of a draft head is computed; see `draft_logits`.

    Raises:
        InputError: prompts and texts are not those of this pair (see `check_continued`), or the target gives a token
            probability 0, even after a change of its logits within their rounding error.
        LogitsError: a model returns logits that are not a distribution.
    """
    check_continued(pair, prompts, texts)
    read = forced_rows(pair, list(zip(prompts, texts, strict=True)), sampling, depths)
    return (
        GreedyText(draft_ranks(q, text)) if p is None else TargetText(np.array(text), p, to_host(q))
        for text, (p, q) in zip(texts, read, strict=True)
    )


@torch.inference_mode()
def forced_rows(
    pair: Pair, requests: Sequence[tuple[list[int], list[int]]], sampling: Sampling, depths: int, first: int = 0
) -> Iterator[tuple[Any, Float32[Tensor, "D n V"]]]:
    """For each prompt with its text of n tokens: p (n, V) at the positions of the text, and the draft's q there.

    p is None at temperature 0. `first` is the number of the first request, for error messages.
    """
    target: Any = pair.target
    is_head = isinstance(pair.draft, Head)
    for start in range(0, len(requests), BATCH):
        batch, number = requests[start : start + BATCH], first + start
        rows = [torch.tensor([*prompt, *text]) for prompt, text in batch]
        tokens = pad_sequence(rows, batch_first=True).to(pair.device)
        begin = min(len(prompt) for prompt, _ in batch) - 1
        logits, hidden = torch.empty(0), ()
        if is_head or not sampling.greedy:
            out = target(tokens, output_hidden_states=is_head, logits_to_keep=tokens.shape[1] - begin)
            logits, hidden = out.logits[..., : pair.vocab_size].float(), out.hidden_states
            check_rows(logits, f"target {pair.names[0]}", target.dtype, number, begin)
        offered = draft_logits(pair, tokens, hidden, depths, number, begin)
        for place, (prompt, text) in enumerate(batch):
            span = slice(len(prompt) - 1 - begin, len(prompt) + len(text) - 1 - begin)
            p = None
            if not sampling.greedy:
                kept = sampling.distribution(logits[place, span])
                _keep_tokens(kept, logits[place, span], text, sampling, target.dtype)
                p = as_distributions("p", to_host(kept))
            yield p, sampling.draft_distribution(offered[:, place, span])


def draft_ranks(q: Float[Tensor, "*depths n V"], text: list[int]) -> Int64[np.ndarray, "*depths n"]:
    """The ranks of the tokens of a text in the draft's distributions; -1 for a token of probability 0.

    Ties: lower token first, as in `reference.candidates`.
    """
    tokens = torch.tensor(text, device=q.device)
    own = q.gather(-1, tokens.expand(q.shape[:-1])[..., None])
    lower = torch.arange(q.shape[-1], device=q.device) < tokens[:, None]
    ranks = ((q > own) | ((q == own) & lower)).sum(-1)
    return ranks.masked_fill(own[..., 0] == 0, -1).cpu().numpy()


def _keep_tokens(p: Tensor, logits: Tensor, text: list[int], sampling: Sampling, dtype: torch.dtype) -> None:
    """Replace the rows of `p` (n, V) that exclude the token of the text by a rounding error of `logits` (n, V)."""
    tokens = torch.tensor(text, device=p.device)
    for position in (p.gather(1, tokens[:, None])[:, 0] == 0).nonzero()[:, 0].tolist():
        row, token = logits[position], text[position]
        largest = row.abs().masked_fill(row.isinf(), 0).max() * max(UNITS * torch.finfo(dtype).eps, LEAST_ROUNDING)
        nearer = torch.where(row > row[token], -1.0, 1.0)
        for step in range(STEPS - 1, -1, -1):
            changed = sampling.distribution(row + nearer * (largest / 2**step))
            if changed[token] > 0:
                p[position] = changed
                break
