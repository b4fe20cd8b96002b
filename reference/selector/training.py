"""`train_selector`: the network of Eq. (10) trained by Eq. (12) on labels, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference.part_files import short_hash
from reference.sampling import Sampling
from reference.selector.choices import best_static, check_latency, facts_of, seconds_of
from reference.selector.features import Features, all_scalars
from reference.selector.labels import Labels
from reference.selector.network import SelectorNetwork, objective
from reference.selector.selector import CARD, Selector, SelectorCard, network_of, scaled
from spectheory import Latency, Provenance
from spectheory.core.checks import LARGEST_SEED, check_whole
from spectheory.core.errors import InputError
from spectheory.core.files import owned, whole_file

CHECKPOINT = "checkpoint.pt"
"""File of an unfinished training."""
CONSTANT = 1e-6
"""A scalar that varies by less than this share of its mean is constant: it is not scaled."""


@dataclass(frozen=True)
class SelectorTraining:
    """Settings of a training.

    The source states the form of the objective, but none of these numbers.

    Attributes:
        verifier: name of the verifier whose labels are used.
        steps: number of updates of the weights.
        batch: number of roots in an update, drawn with replacement.
        rate: learning rate, which falls to 0 along half a cosine.
        decay: weight decay of AdamW.
        dropout: dropout probability.
        penalty: lambda of Eq. (12).
        worst: alpha of Eq. (12).
        held: share of the prompts that are held back to choose the best step; 0 means that the last step is used.
        every: number of updates between checkpoints, at which the throughput on the held-back prompts is computed too.
        seed: seed of the first weights, the batches, the dropout and the choice of the held-back prompts.

    Raises:
        InputError: a number is out of range.
    """

    verifier: str = "SpecInfer"
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
        for name in ("rate", "decay", "penalty"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be at least 0 and finite, got {getattr(self, name)}")
        for name in ("dropout", "held"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if not 0 < self.worst <= 1:
            raise InputError(f"worst must be above 0 and at most 1, got {self.worst}")


@dataclass(frozen=True, eq=False)
class _Examples:
    """Roots of one or more samplings: standardised features, and E[tau], seconds and base throughput of each tree."""

    features: Features
    tokens: Tensor
    seconds: Tensor
    base: Tensor

    def at(self, places: Tensor) -> _Examples:
        return _Examples(self.features.at(places), self.tokens[places], self.seconds[places], self.base[places])


def train_selector(
    labels: Sequence[Labels],
    latency: Latency,
    settings: SelectorTraining,
    folder: Path,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> Selector:
    """Train a selector and write it to `folder`.

    A call after an interruption continues at the last checkpoint, and has the result of a call without one. A folder
    with a finished selector of the same training is read.

    Args:
        labels: labels of one pair and one space of actions, one for each sampling.
        latency: seconds of forwards of the machine that the selector is for.
        settings: see `SelectorTraining`.
        folder: empty folder, or folder of the same training.
        done: callback with the numbers of finished steps and of all.

    Raises:
        InputError: labels are missing, are of different pairs or actions, of the same sampling, or not of the verifier;
            the latency charges prompts; too few prompts are left to choose the best step; or `folder` holds another
            training.
    """
    _check(labels, latency)
    identity = short_hash([asdict(settings), facts_of(latency), [one.identity for one in labels]])
    if (folder / CARD).exists():
        found = Selector.load(folder)
        if found.card.provenance.settings.get("training") != identity:
            raise InputError(f"{folder} holds the selector of another training: name an empty folder or remove it")
        return found
    card, examples = _prepared(labels, latency, settings, identity)
    kept, held = _split(labels, settings)
    with owned(folder, folder / "training.lock", "name another folder"):
        run = _Run(folder / CHECKPOINT, identity, settings, card)
        run.fit(examples.at(kept), examples.at(held), done)
        network = network_of(card.pair, card.space)
        network.load_state_dict(run.best if len(held) else run.network.state_dict())
        selector = Selector(card, network.eval())
        selector.save(folder)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        return selector


class _Run:
    """The state of a training: network, optimizer, step, and the best weights so far."""

    def __init__(self, checkpoint: Path, identity: str, settings: SelectorTraining, card: SelectorCard) -> None:
        self.checkpoint, self.identity, self.settings = checkpoint, identity, settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.network: SelectorNetwork = network_of(card.pair, card.space, settings.dropout)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), settings.rate, weight_decay=settings.decay)
        self.step, self.highest = 0, -1.0
        self.best: dict[str, Tensor] = {}
        if checkpoint.exists():
            self._continue()

    def fit(self, examples: _Examples, held: _Examples, done: Callable[[int, int], None]) -> None:
        """Update the weights up to the last step."""
        steps = self.settings.steps
        while self.step < steps:
            self._update(examples)
            self.step += 1
            if self.step % self.settings.every == 0 or self.step == steps:
                self._judge(held)
                self._save()
                done(self.step, steps)

    def _update(self, examples: _Examples) -> None:
        """One update. Its random numbers depend on the seed and the step only."""
        one, seed = self.settings, [self.settings.seed, self.step]
        rng = np.random.default_rng(seed)
        batch = examples.at(torch.from_numpy(rng.integers(len(examples.base), size=one.batch)))
        for group in self.optimizer.param_groups:
            group["lr"] = one.rate * (1 + cos(pi * self.step / one.steps)) / 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            logits = self.network.train()(batch.features)
        loss = objective(logits, batch.tokens, batch.seconds, batch.base, one.penalty, one.worst)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.inference_mode()
    def _judge(self, held: _Examples) -> None:
        """Keep the weights if their choices have the highest throughput so far on the prompts held back."""
        if not len(held.base):
            return
        chosen = self.network.eval()(held.features).argmax(-1, keepdim=True)
        reached = float(held.tokens.gather(1, chosen).sum() / held.seconds.gather(1, chosen).sum())
        if reached > self.highest:
            self.highest = reached
            self.best = {name: weight.clone() for name, weight in self.network.state_dict().items()}

    def _save(self) -> None:
        state = {
            "identity": self.identity,
            "step": self.step,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "highest": self.highest,
            "best": self.best,
        }
        with whole_file(self.checkpoint) as partial:
            torch.save(state, partial)

    def _continue(self) -> None:
        """Take the state of the checkpoint."""
        try:
            state = torch.load(self.checkpoint, weights_only=True)
        except Exception as error:  # whatever the unpickler stumbles over
            raise InputError(f"{self.checkpoint} is damaged: remove it to start this training anew") from error
        if state["identity"] != self.identity:
            raise InputError(
                f"{self.checkpoint} belongs to another training (other labels, latency or settings): name an empty "
                "folder or remove the file"
            )
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.highest, self.best = state["step"], state["highest"], state["best"]


def _check(labels: Sequence[Labels], latency: Latency) -> None:
    """Refuse labels that one selector cannot learn from."""
    if not labels:
        raise InputError("labels must be at least one, got none: compute labels first")
    check_latency(latency)
    first = labels[0]
    for one in labels[1:]:
        first.pair.require(one.pair, "one of the labels")
        if one.space != first.space:
            raise InputError(f"labels must have the same actions, got {first.space} and {one.space}")
    check_samplings([one.sampling for one in labels])


def check_samplings(samplings: Sequence[Sampling]) -> None:
    """Raise InputError if texts were decoded greedily, or if labels of one sampling are given twice."""
    if any(sampling.greedy for sampling in samplings):
        raise InputError("temperature of the texts must be above 0, got 0: i.i.d. paths of greedy drafts are all equal")
    if len(set(samplings)) < len(samplings):
        raise InputError(f"labels must be of different samplings, got {', '.join(map(str, samplings))}")


def _prepared(
    labels: Sequence[Labels], latency: Latency, settings: SelectorTraining, identity: str
) -> tuple[SelectorCard, _Examples]:
    """The card of the selector, and all roots as the network reads them."""
    scalars = [all_scalars(one.features.scalars, one.sampling, latency) for one in labels]
    everything = torch.cat(scalars).double().numpy()
    means, scales = everything.mean(0), everything.std(0)
    tokens = [one.of(settings.verifier).mean(1) for one in labels]
    seconds = [seconds_of(one, latency) for one in labels]
    static = tuple(map(best_static, tokens, seconds))
    base = [one[:, tree] / two[:, tree] for one, two, tree in zip(tokens, seconds, static, strict=True)]
    stamp: dict[str, Any] = asdict(settings) | {"training": identity}
    del stamp["seed"]
    card = SelectorCard(
        space=labels[0].space,
        verifier=settings.verifier,
        pair=labels[0].pair,
        samplings=tuple(one.sampling for one in labels),
        latency=latency,
        static=static,
        means=means,
        scales=np.where(scales > CONSTANT * abs(means), scales, 1.0),
        prompts=tuple(sorted({prompt for one in labels for prompt in one.prompts.tolist()})),
        provenance=Provenance.now(
            "reference.selector.train_selector", packages=("torch",), seed=settings.seed, settings=stamp
        ),
    )
    known = [one.features for one in labels]
    features = Features(
        torch.cat([one.target for one in known]),
        torch.cat([one.draft for one in known]),
        torch.cat([one.root for one in known]),
        scaled(torch.cat(scalars), card),
    )
    sums, times, ratios = (torch.from_numpy(np.concatenate(rows)).float() for rows in (tokens, seconds, base))
    return card, _Examples(features, sums, times, ratios)


def _split(labels: Sequence[Labels], settings: SelectorTraining) -> tuple[Tensor, Tensor]:
    """The roots to train on, and those on which the best step is chosen. A prompt is in one of them only."""
    prompts = np.concatenate([one.prompts for one in labels])
    order = np.random.default_rng([settings.seed, 1]).permutation(np.unique(prompts))
    back = np.isin(prompts, order[: round(settings.held * len(order))])
    if back.all() or (settings.held and not back.any()):
        raise InputError(
            f"held={settings.held:g} of {len(order)} prompts leaves none on one side: give labels of more prompts"
        )
    kept, held = (torch.from_numpy(np.flatnonzero(side)) for side in (~back, back))
    return kept, held
