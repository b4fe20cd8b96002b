"""`Selector`, a trained network with all that it needs to choose a tree, and `train_selector`, by Eq. (12)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from reference.sampling import Sampling
from reference.selector.labels import Labels
from reference.selector.network import Features, SelectorNetwork, all_scalars, objective
from reference.selector.trees import Action, best_static
from spectheory import Latency
from spectheory.core.errors import InputError

BATCH, DECAY, DROPOUT = 256, 0.01, 0.1
"""Roots in an update, drawn with replacement; weight decay and dropout. The source states none of these numbers."""
PENALTY, WORST = 1.0, 0.1
"""Lambda and alpha of Eq. (12), which the source does not state either."""


@dataclass(frozen=True, eq=False)
class Selector:
    """A trained network that chooses a tree by what is known before the tree is drawn.

    Attributes:
        labels: the labels that it was trained on, whose pair, sampling, verifier and actions are its own.
        latency: seconds of forwards of the machine that it is for.
        means, scales: (scalars,) mean and scale of each scalar feature; it is standardised to (x - mean) / scale.
        network: the network, in evaluation mode, on the host.
    """

    labels: Labels
    latency: Latency
    means: Tensor
    scales: Tensor
    network: SelectorNetwork

    def require(self, weights: str, sampling: Sampling) -> None:
        """Raise InputError if this selector was trained for a pair of other weights or for another sampling."""
        for what, ours, theirs in (
            ("a pair of weights", self.labels.weights, weights),
            ("text of", self.labels.sampling, sampling),
        ):
            if ours != theirs:
                raise InputError(f"the selector is for {what} {ours}, not {theirs}: train another one")

    @torch.inference_mode()
    def chosen(self, features: Features) -> Int[Tensor, " B"]:
        """Numbers of the trees with the highest logits at B roots."""
        return self.network(self.standardised(features)).argmax(-1)

    def tree(self, features: Features) -> Action:
        """The tree at one root."""
        return self.labels.space.trees[int(self.chosen(features)[0])]

    def standardised(self, features: Features) -> Features:
        """The features with all scalars, standardised as in training."""
        scalars = (all_scalars(features.scalars, self.labels.sampling, self.latency) - self.means) / self.scales
        return Features(features.target, features.draft, features.root, scalars)


def train_selector(
    labels: Labels, latency: Latency, *, steps: int = 300, rate: float = 1e-3, seed: int = 0
) -> Selector:
    """Train a selector: seconds on one core.

    Args:
        labels: the labels to learn from.
        latency: seconds of forwards of the machine that the selector is for.
        steps: number of updates of the weights, by AdamW.
        rate: learning rate, which falls to 0 along half a cosine.
        seed: seed of the first weights, the batches and the dropout.

    Raises:
        InputError: the latency charges prompts.
    """
    if latency.prompt_seconds or latency.draft_prompt_seconds:
        raise InputError(
            f"latency must have no seconds of prompts, got prompt_seconds={latency.prompt_seconds:g} and "
            f"draft_prompt_seconds={latency.draft_prompt_seconds:g}: a selector decides cycles"
        )
    scalars = all_scalars(labels.features.scalars, labels.sampling, latency).double()
    means, scales = scalars.mean(0), scalars.std(0, unbiased=False)
    scales = torch.where(scales > 1e-6 * means.abs(), scales, 1.0)  # a constant is not scaled
    expected, spent = labels.tokens.mean(1), labels.space.seconds(latency, labels.contexts)
    static = best_static(expected, spent)
    rows = expected, spent, expected[:, static] / spent[:, static]
    tokens, seconds, base = (torch.from_numpy(values).float() for values in rows)
    hidden = labels.features.target.shape[1], labels.features.draft.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = SelectorNetwork(*hidden, len(labels.space.trees), DROPOUT)
        found = Selector(labels, latency, means.float(), scales.float(), network)
        features = found.standardised(labels.features)
        optimizer = torch.optim.AdamW(network.parameters(), rate, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            batch = torch.randint(len(base), (BATCH,))
            logits = network(features.at(batch))
            loss = objective(logits, tokens[batch], seconds[batch], base[batch], PENALTY, WORST)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    network.eval().requires_grad_(False)
    return found
