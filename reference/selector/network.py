"""`SelectorNetwork`, the network of Eq. (10), and the objective of Eq. (12)."""

from __future__ import annotations

from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor, nn

from reference.selector.features import SCALARS, Features

SHARED = 128
"""Size to which each hidden state is projected."""
LAYERS = (512, 32)
"""Sizes of the hidden layers."""


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

    def __init__(self, target_hidden: int, draft_hidden: int, trees: int, dropout: float = 0.1) -> None:
        super().__init__()
        sizes = target_hidden, draft_hidden, draft_hidden
        self.projections = nn.ModuleList(nn.Linear(size, SHARED) for size in sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(SHARED) for _ in sizes)
        wide, narrow = LAYERS
        self.layers = nn.Sequential(
            nn.Linear(len(sizes) * SHARED + len(SCALARS), wide),
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


def throughput(
    logits: Float[Tensor, "B trees"], tokens: Float[Tensor, "B trees"], seconds: Float[Tensor, "B trees"]
) -> Float[Tensor, " B"]:
    """Expected tokens divided by expected seconds if the tree is drawn from the softmax of the logits: Eq. (4).

    Args:
        logits: one for each tree.
        tokens: E[tau] of each tree.
        seconds: seconds of a cycle with each tree.
    """
    chances = logits.softmax(-1)
    return (chances * tokens).sum(-1) / (chances * seconds).sum(-1)


def objective(
    logits: Float[Tensor, "B trees"],
    tokens: Float[Tensor, "B trees"],
    seconds: Float[Tensor, "B trees"],
    base: Float[Tensor, " B"],
    penalty: float,
    worst: float,
) -> Float[Tensor, ""]:
    """The loss of Eq. (12): mean -log(ratio) + penalty * mean over the worst roots of max(1 - ratio, 0)^2.

    The ratio at a root is the throughput of the policy divided by the throughput of the static tree. The
    worst roots are the ceil(worst B) roots with the largest penalty terms. The mean of the logarithms over the roots
    differs from the throughput of a run. The throughput is a ratio of sums over cycles, in which a root whose cycle
    takes long has more weight.

    Args:
        logits: one for each tree.
        tokens: E[tau] of each tree.
        seconds: seconds of a cycle with each tree.
        base: throughput of the static tree at each root.
        penalty: lambda of the source, which does not state its value.
        worst: alpha of the source, above 0 and at most 1, not stated either.
    """
    ratio = throughput(logits, tokens, seconds) / base
    shortfalls = (1 - ratio).clamp(min=0) ** 2
    return -ratio.log().mean() + penalty * shortfalls.topk(ceil(worst * len(ratio))).values.mean()
