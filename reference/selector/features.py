"""The features of a selector: what is known of the text before a draft is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from reference.sampling import Sampling
from spectheory.hardware.latency import Latency

LEAST = 1e-9
"""Probabilities below this count as this much in a divergence, which top-k and top-p would make infinite."""
SCALARS = (
    "entropy of p after the token before the root",
    "entropy of q after the token before the root",
    "entropy of q after the root",
    "KL(p || q) after the token before the root",
    "KL(q || p) after the token before the root",
    "L1 distance of p and q after the token before the root",
    "tokens in the cache",
    "temperature",
    "top-p",
    "seconds of a draft forward of one token",
    "seconds of a target forward of one token",
)
"""The scalar features in order. Entropies and divergences are in nats, and of the distributions that are sampled."""
KNOWN = 7
"""Number of the first scalars, which labels hold. The others come from the sampling and the latency."""


@dataclass(frozen=True)
class Features:
    """What a selector knows of B roots.

    The root is the last emitted token. The target has not read it, so its features are of the token before.

    Attributes:
        target: last hidden state of the target after the token before the root.
        draft: last hidden state of the draft after the token before the root.
        root: last hidden state of the draft after the root.
        scalars: the first `KNOWN` scalars.
    """

    target: Float[Tensor, "B target_hidden"]
    draft: Float[Tensor, "B draft_hidden"]
    root: Float[Tensor, "B draft_hidden"]
    scalars: Float[Tensor, "B scalars"]

    def at(self, places: Tensor | slice) -> Features:
        """The features of some of the roots."""
        return Features(self.target[places], self.draft[places], self.root[places], self.scalars[places])


def known_scalars(
    p: Float[Tensor, "B V"], q: Float[Tensor, "B V"], q_root: Float[Tensor, "B V"], contexts: Sequence[int]
) -> Float32[Tensor, "B known"]:
    """The first `KNOWN` scalars.

    Args:
        p: the target's distribution after the token before the root.
        q: the draft's distribution there.
        q_root: the draft's distribution after the root.
        contexts: number of tokens in the cache, which are the tokens before the root.
    """
    logs = [rows.clamp(min=LEAST).log() for rows in (p, q, q_root)]
    entropies = [-(rows * log).sum(-1) for rows, log in zip((p, q, q_root), logs, strict=True)]
    there, back = (p * (logs[0] - logs[1])).sum(-1), (q * (logs[1] - logs[0])).sum(-1)
    length = torch.tensor(contexts, dtype=torch.float32, device=p.device)
    return torch.stack([*entropies, there, back, (p - q).abs().sum(-1), length], -1).float()


def all_scalars(known: Float[Tensor, "B known"], sampling: Sampling, latency: Latency) -> Float32[Tensor, "B scalars"]:
    """The known scalars and the scalars of the sampling and the latency."""
    contexts = known[:, KNOWN - 1].tolist()
    more = [
        (sampling.temperature, sampling.top_p, latency.draft(1, int(context)), latency.target(1, int(context)))
        for context in contexts
    ]
    return torch.cat([known, torch.tensor(more, dtype=torch.float32, device=known.device)], -1)
