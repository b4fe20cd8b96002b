"""`Selector`, a trained network with all that it needs to choose a tree, and its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from reference.models import Pair
from reference.sampling import Sampling
from reference.selector.actions import Action, ActionSpace
from reference.selector.features import SCALARS, Features, all_scalars
from reference.selector.network import SelectorNetwork
from reference.selector.pair_facts import PairFacts
from spectheory import Latency, Provenance
from spectheory.core.errors import InputError
from spectheory.core.files import whole_file
from spectheory.core.provenance import UNKNOWN
from spectheory.core.record import Record

CARD, WEIGHTS = "selector.json", "selector.safetensors"
"""Files of a folder that holds a selector."""


@dataclass(frozen=True, eq=False, repr=False)
class SelectorCard(Record):
    """What a selector was trained for.

    Attributes:
        space: the actions.
        verifier: the verifier of its labels.
        pair: the pair of its labels.
        samplings: the samplings of its labels.
        latency: seconds of forwards of the machine that it is for.
        static: number of the static tree of each sampling that the training compares with.
        means, scales: (scalars,) mean and scale of each scalar feature; it is standardised to (x - mean) / scale.
        prompts: hashes of the prompts of its labels.
    """

    kind: ClassVar[str] = "selector"

    space: ActionSpace
    verifier: str
    pair: PairFacts
    samplings: tuple[Sampling, ...]
    latency: Latency
    static: tuple[int, ...]
    means: np.ndarray
    scales: np.ndarray
    prompts: tuple[str, ...]
    provenance: Provenance = UNKNOWN

    def __post_init__(self) -> None:
        trees = len(self.space.trees)
        if len(self.static) != len(self.samplings) or not all(0 <= tree < trees for tree in self.static):
            raise InputError(
                f"static must have the number of a tree, from 0 to {trees - 1}, for each of {len(self.samplings)} "
                f"samplings, got {self.static}"
            )
        for name in ("means", "scales"):
            values = np.asarray(getattr(self, name), np.float64)
            if values.shape != (len(SCALARS),) or not np.isfinite(values).all():
                raise InputError(f"{name} must be one finite number for each of {len(SCALARS)} scalar features")
            object.__setattr__(self, name, values)
        if (self.scales <= 0).any():
            raise InputError(f"scales must be above 0, got {self.scales.min()}")

    @property
    def summary(self) -> str:
        """The actions and the verifier."""
        return f"{len(self.space.trees)} trees for {self.verifier}"


@dataclass(frozen=True, eq=False)
class Selector:
    """A trained network that chooses a tree by what is known before the tree is drawn.

    Attributes:
        card: what it was trained for.
        network: the network, in evaluation mode, on the host.
    """

    card: SelectorCard
    network: SelectorNetwork

    def require(self, pair: Pair, sampling: Sampling) -> None:
        """Raise InputError if this selector was trained for another pair or another sampling."""
        self.card.pair.require(PairFacts.of(pair), f"{pair.names[0]} with {pair.names[1]}")
        self.require_sampling(sampling)

    def require_sampling(self, sampling: Sampling) -> None:
        """Raise InputError if the selector was trained on no labels of this sampling; E[tau] depends on it."""
        if sampling not in self.card.samplings:
            raise InputError(
                f"the selector was trained for {', '.join(map(str, self.card.samplings))}, not for {sampling}: compute "
                "labels with this sampling and train again"
            )

    @torch.inference_mode()
    def chosen(self, features: Features, sampling: Sampling) -> Int[Tensor, " B"]:
        """Numbers of the trees with the highest logits at B roots."""
        return self.network(self.standardised(features, sampling)).argmax(-1)

    def tree(self, features: Features, sampling: Sampling) -> Action:
        """The tree at one root."""
        return self.card.space.trees[int(self.chosen(features, sampling)[0])]

    def standardised(self, features: Features, sampling: Sampling) -> Features:
        """The features with all scalars, standardised as in training."""
        scalars = all_scalars(features.scalars, sampling, self.card.latency)
        return Features(features.target, features.draft, features.root, scaled(scalars, self.card))

    def save(self, folder: Path) -> None:
        """Write the selector to a folder: the card after the weights, so that a folder with a card is whole."""
        with whole_file(folder / WEIGHTS) as partial:
            save_file(self.network.state_dict(), partial)
        self.card.save(folder / CARD)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The selector in a folder.

        Raises:
            InputError: the folder holds no selector, or its weights are damaged or do not match the card.
        """
        card = SelectorCard.load(folder / CARD)
        network = network_of(card.pair, card.space)
        try:
            found = load_file(folder / WEIGHTS)
        except (SafetensorError, OSError) as error:
            raise InputError(f"{folder / WEIGHTS} is missing or damaged: train the selector again") from error
        expected = network.state_dict()
        for name in sorted(found.keys() | expected.keys()):
            shapes = [tuple(weights[name].shape) if name in weights else None for weights in (expected, found)]
            if shapes[0] != shapes[1]:
                raise InputError(
                    f"{folder / WEIGHTS} has {name} of shape {shapes[1]}, a selector of {len(card.space.trees)} trees "
                    f"for this pair has {shapes[0]}: its actions or hidden sizes differ: train it again"
                )
        network.load_state_dict(found)
        return cls(card, network.eval())


def network_of(pair: PairFacts, space: ActionSpace, dropout: float = 0.0) -> SelectorNetwork:
    """A new network for the trees of `space`."""
    return SelectorNetwork(pair.target_hidden, pair.draft_hidden, len(space.trees), dropout)


def scaled(scalars: Tensor, card: SelectorCard) -> Tensor:
    """Scalars (B, scalars) minus their means, divided by their scales."""
    return (scalars - torch.from_numpy(card.means).float()) / torch.from_numpy(card.scales).float()
