"""`Selector`, a trained network with all that it needs to choose a tree, and `train_selector`, by Eq. (12)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from json import dumps, loads
from math import cos, pi
from pathlib import Path
from typing import Any, Self

import numpy as np
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
        held: share of the prompts that are held back to choose the best step; 0 means that the last step is used.
        every: number of updates between two computations of the throughput on the held-back prompts.
        seed: seed of the first weights, the batches, the dropout and the choice of the held-back prompts.
    """

    steps: int = 300
    batch: int = 256
    rate: float = 1e-3
    decay: float = 0.01
    dropout: float = 0.1
    penalty: float = 1.0
    worst: float = 0.1
    held: float = 0.2
    every: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "every"):
            check_whole(name, getattr(self, name), 1)
        check_whole("seed", self.seed, 0, most=LARGEST_SEED)
        for name in ("dropout", "held", "worst"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")


def train_selector(labels: Labels, latency: Latency, settings: SelectorTraining) -> Selector:
    """Train a selector: seconds on one core, so an interrupted training starts anew.

    Args:
        labels: the labels to learn from.
        latency: seconds of forwards of the machine that the selector is for.
        settings: see `SelectorTraining`.

    Raises:
        InputError: the latency charges prompts, or too few prompts are left to choose the best step.
    """
    if latency.prompt_seconds or latency.draft_prompt_seconds:
        raise InputError(
            f"latency must have no seconds of prompts, got prompt_seconds={latency.prompt_seconds:g} and "
            f"draft_prompt_seconds={latency.draft_prompt_seconds:g}: a selector decides cycles"
        )
    scalars = all_scalars(labels.features.scalars, labels.sampling, latency).double()
    means, scales = scalars.mean(0), scalars.std(0, unbiased=False)
    scales = torch.where(scales > 1e-6 * means.abs(), scales, 1.0)  # a constant is not scaled
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        hidden = labels.features.target.shape[1], labels.features.draft.shape[1]
        network = SelectorNetwork(*hidden, len(labels.space.trees), settings.dropout)
    found = Selector(
        labels.space, labels.verifier, labels.weights, labels.sampling, latency, means.float(), scales.float(),
        frozenset(labels.prompts.tolist()), network,
    )  # fmt: skip
    tokens, seconds = labels.tokens.mean(1), labels.space.seconds(latency, labels.contexts)
    static = best_static(tokens, seconds)
    rows = tokens, seconds, tokens[:, static] / seconds[:, static]
    mean, spent, base = (torch.from_numpy(values).float() for values in rows)
    _fit(network, found.standardised(labels.features), mean, spent, base, labels.prompts, settings)
    return found


def _fit(
    network: SelectorNetwork,
    features: Features,
    tokens: Tensor,
    seconds: Tensor,
    base: Tensor,
    prompts: np.ndarray,
    settings: SelectorTraining,
) -> None:
    """Train the network at all roots but those of held-back prompts, and keep the weights that do best on these."""
    order = np.random.default_rng([settings.seed, 1]).permutation(np.unique(prompts))
    back = np.isin(prompts, order[: round(settings.held * len(order))])
    if back.all() or (settings.held and not back.any()):
        raise InputError(
            f"held={settings.held:g} of {len(order)} prompts leaves none on one side: give labels of more prompts"
        )
    kept, held = (torch.from_numpy(np.flatnonzero(side)) for side in (~back, back))
    optimizer = torch.optim.AdamW(network.parameters(), settings.rate, weight_decay=settings.decay)
    highest, best = -1.0, network.state_dict()
    for step in range(settings.steps):
        rng = np.random.default_rng([settings.seed, step])
        batch = kept[torch.from_numpy(rng.integers(len(kept), size=settings.batch))]
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * (1 + cos(pi * step / settings.steps)) / 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            logits = network.train()(features.at(batch))
        loss = objective(logits, tokens[batch], seconds[batch], base[batch], settings.penalty, settings.worst)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if len(held) and ((step + 1) % settings.every == 0 or step + 1 == settings.steps):
            with torch.inference_mode():
                chosen = network.eval()(features.at(held)).argmax(-1, keepdim=True)
            reached = float(tokens[held].gather(1, chosen).sum() / seconds[held].gather(1, chosen).sum())
            if reached > highest:
                highest, best = reached, {name: weight.clone() for name, weight in network.state_dict().items()}
    network.load_state_dict(best)
    network.eval().requires_grad_(False)
