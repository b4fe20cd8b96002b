"""`Selector`, a trained network with all that it needs to choose a tree, and `train_selector`, by Eq. (12)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Int
from torch import Tensor

from reference.sampling import Sampling
from reference.selector.labels import Labels
from reference.selector.network import Features, SelectorNetwork, all_scalars, objective
from reference.selector.trees import Action, ActionSpace, best_static
from spectheory import Latency
from spectheory.core.checks import LARGEST_SEED, check_whole
from spectheory.core.errors import InputError
from spectheory.core.files import whole_file

FILE = "selector.pt"
"""The file of a folder that holds a selector."""


@dataclass(frozen=True, eq=False)
class Selector:
    """A trained network that chooses a tree by what is known before the tree is drawn.

    Attributes:
        space: the actions.
        verifier: the verifier of its labels.
        weights: hash of the weights of the pair of its labels.
        sampling: the sampling of its labels.
        latency: seconds of forwards of the machine that it is for.
        means, scales: (scalars,) mean and scale of each scalar feature; it is standardised to (x - mean) / scale.
        prompts: hashes of the prompts of its labels.
        network: the network, in evaluation mode, on the host.
    """

    space: ActionSpace
    verifier: str
    weights: str
    sampling: Sampling
    latency: Latency
    means: Tensor
    scales: Tensor
    prompts: frozenset[str]
    network: SelectorNetwork

    def require(self, weights: str, sampling: Sampling) -> None:
        """Raise InputError if this selector was trained for a pair of other weights or for another sampling."""
        if weights != self.weights:
            raise InputError(
                f"the selector is for a pair of weights {self.weights}, got {weights}: train a selector for this pair"
            )
        if sampling != self.sampling:
            raise InputError(f"the selector was trained for {self.sampling}, not for {sampling}: train another one")

    @torch.inference_mode()
    def chosen(self, features: Features) -> Int[Tensor, " B"]:
        """Numbers of the trees with the highest logits at B roots."""
        return self.network(self.standardised(features)).argmax(-1)

    def tree(self, features: Features) -> Action:
        """The tree at one root."""
        return self.space.trees[int(self.chosen(features)[0])]

    def standardised(self, features: Features) -> Features:
        """The features with all scalars, standardised as in training."""
        scalars = (all_scalars(features.scalars, self.sampling, self.latency) - self.means) / self.scales
        return Features(features.target, features.draft, features.root, scalars)

    def save(self, folder: Path) -> None:
        """Write the selector to a folder."""
        state = self.network.state_dict()
        facts = vars(self) | {"space": asdict(self.space), "sampling": asdict(self.sampling)}
        facts |= {"prompts": sorted(self.prompts), "latency": dumps(self.latency.to_dict()), "network": state}
        with whole_file(folder / FILE) as partial:
            torch.save(facts, partial)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The selector in a folder.

        Raises:
            InputError: the folder holds no selector, or a damaged one.
        """
        try:
            facts: dict[str, Any] = torch.load(folder / FILE, weights_only=True)
        except Exception as error:  # whatever the unpickler stumbles over
            raise InputError(f"{folder / FILE} is missing or damaged: train the selector again") from error
        state, space = facts["network"], ActionSpace(**facts["space"])
        target, draft = (state[f"projections.{place}.weight"].shape[1] for place in (0, 1))
        network = SelectorNetwork(target, draft, len(space.trees))
        network.load_state_dict(state)
        facts |= {"space": space, "sampling": Sampling(**facts["sampling"])}
        facts |= {"prompts": frozenset(facts["prompts"]), "network": network.eval()}
        return cls(**facts | {"latency": Latency.from_dict(loads(facts["latency"]))})


@dataclass(frozen=True)
class SelectorTraining:
    """Settings of a training. The source states the form of the objective, but none of these numbers.

    Attributes:
        steps: number of updates of the weights.
        batch: number of roots in an update, drawn with replacement.
        rate: learning rate, which falls to 0 along half a cosine.
        decay: weight decay of AdamW.
        dropout: dropout probability.
        penalty: lambda of Eq. (12).
        worst: alpha of Eq. (12).
        seed: seed of the first weights, the batches and the dropout.
    """

    steps: int = 300
    batch: int = 256
    rate: float = 1e-3
    decay: float = 0.01
    dropout: float = 0.1
    penalty: float = 1.0
    worst: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, 1)
        check_whole("batch", self.batch, 1)
        check_whole("seed", self.seed, 0, most=LARGEST_SEED)
        for name in ("dropout", "worst"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")


def train_selector(labels: Labels, latency: Latency, settings: SelectorTraining) -> Selector:
    """Train a selector: seconds on one core, so an interrupted training starts anew.

    Args:
        labels: the labels to learn from.
        latency: seconds of forwards of the machine that the selector is for.
        settings: see `SelectorTraining`.

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
        torch.manual_seed(settings.seed)
        network = SelectorNetwork(*hidden, len(labels.space.trees), settings.dropout)
        found = Selector(
            labels.space, labels.verifier, labels.weights, labels.sampling, latency, means.float(), scales.float(),
            frozenset(labels.prompts.tolist()), network,
        )  # fmt: skip
        features = found.standardised(labels.features)
        optimizer = torch.optim.AdamW(network.parameters(), settings.rate, weight_decay=settings.decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
        for _ in range(settings.steps):
            batch = torch.randint(len(base), (settings.batch,))
            logits = network(features.at(batch))
            loss = objective(logits, tokens[batch], seconds[batch], base[batch], settings.penalty, settings.worst)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    network.eval().requires_grad_(False)
    return found
