"""`SelectorNetwork`, the network of Eq. (10), the features that it reads, and the objective of Eq. (12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from reference.sampling import Sampling
from spectheory.hardware.latency import Latency

LEAST = 1e-9
"""Probabilities below this count as this much in a divergence, which top-k and top-p would make infinite."""
KNOWN, SCALARS = 7, 11
"""Number of the scalar features that labels hold, and of all: the others come from the sampling and the latency."""
SHARED = 128
"""Size to which each hidden state is projected."""
LAYERS = (512, 32)
"""Sizes of the hidden layers."""


@dataclass(frozen=True)
class Features:
    """What a selector knows of B roots.

    The root is the last emitted token. The target has not read it, so its features are of the token before.

    Attributes:
        target: last hidden state of the target after the token before the root.
        draft: last hidden state of the draft after the token before the root.
        root: last hidden state of the draft after the root.
        scalars: those of `known_scalars`, or all of `all_scalars`.
    """

    target: Float[Tensor, "B target_hidden"]
    draft: Float[Tensor, "B draft_hidden"]
    root: Float[Tensor, "B draft_hidden"]
    scalars: Float[Tensor, "B scalars"]

    def at(self, places: Tensor | slice) -> Features:
        """The features of some of the roots."""
        return Features(*(rows[places] for rows in vars(self).values()))


def known_scalars(
    p: Float[Tensor, "B V"], q: Float[Tensor, "B V"], q_root: Float[Tensor, "B V"], contexts: Sequence[int]
) -> Float32[Tensor, "B known"]:
    """Entropies of p, q and q_root, KL(p | q), KL(q | p), the L1 distance of p and q, and the tokens in the cache.

    Args:
        p: the target's distribution after the token before the root, as it is sampled.
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
    """The known scalars, temperature, top-p, and the seconds of a forward of one token of draft and target."""
    more = [
        (sampling.temperature, sampling.top_p, latency.draft(1, int(context)), latency.target(1, int(context)))
        for context in known[:, KNOWN - 1].tolist()
    ]
    return torch.cat([known, torch.tensor(more, dtype=torch.float32, device=known.device)], -1)


class SelectorNetwork(nn.Module):
    """Computes one logit for each tree from three projected hidden states and the standardised scalar features.

    Source: Dynamic Delayed Tree Expansion, Eq. (10). The paper does not state the dropout probability, and its network
    has an output for each of the 324 actions. Here each different tree has one output, see `ActionSpace`.

    Args:
        target_hidden: hidden size of the target.
        draft_hidden: hidden size of the draft.
        trees: number of outputs.
        dropout: dropout probability after each hidden layer in training.
    """

    def __init__(self, target_hidden: int, draft_hidden: int, trees: int, dropout: float = 0.0) -> None:
        super().__init__()
        sizes = target_hidden, draft_hidden, draft_hidden
        self.projections = nn.ModuleList(nn.Linear(size, SHARED) for size in sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(SHARED) for _ in sizes)
        wide, narrow = LAYERS
        self.layers = nn.Sequential(
            nn.Linear(len(sizes) * SHARED + SCALARS, wide),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(wide, narrow),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(narrow, trees),
        )

    def forward(self, features: Features) -> Float[Tensor, "B trees"]:
        """Logits of features whose scalars are complete and standardised."""
        states = (features.target, features.draft, features.root)
        projected = [
            norm(linear(state)) for state, linear, norm in zip(states, self.projections, self.norms, strict=True)
        ]
        return self.layers(torch.cat([*projected, features.scalars], -1))


def objective(
    logits: Float[Tensor, "B trees"],
    tokens: Float[Tensor, "B trees"],
    seconds: Float[Tensor, "B trees"],
    base: Float[Tensor, " B"],
    penalty: float,
    worst: float,
) -> Float[Tensor, ""]:
    """The loss of Eq. (12): mean -log(ratio) + penalty * mean over the worst roots of max(1 - ratio, 0)^2.

    The ratio at a root is the throughput of the policy, Eq. (4), divided by the throughput of the static tree. The
    worst roots are the ceil(worst B) roots with the largest penalty terms. The mean of the logarithms over the roots
    differs from the throughput of a run. The throughput is a ratio of sums over cycles, in which a root whose cycle
    takes long has more weight.

    Args:
        logits: one for each tree, which is drawn from their softmax.
        tokens: E[tau] of each tree.
        seconds: seconds of a cycle with each tree.
        base: throughput of the static tree at each root.
        penalty: lambda of the source, which does not state its value.
        worst: alpha of the source, above 0 and at most 1, not stated either.
    """
    chances = logits.softmax(-1)
    ratio = (chances * tokens).sum(-1) / (chances * seconds).sum(-1) / base
    shortfalls = (1 - ratio).clamp(min=0) ** 2
    return -ratio.log().mean() + penalty * shortfalls.topk(ceil(worst * len(ratio))).values.mean()
