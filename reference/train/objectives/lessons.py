"""`Objective` and `HeadObjective`, and the batches of the target's own texts as the losses read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from reference.heads import Head, HeadStep
from reference.losses import Needs, Pass, unroll
from reference.train.forests import softmax
from reference.train.own_texts import OwnTexts, TextBatch
from spectheory.core.checks import check_whole


class Lesson(NamedTuple):
    """A batch as the losses read it. Row r has read token r + 1 and predicts token r + 2.

    Attributes:
        states: (B, L - 1, states x D) the target's hidden states at token r that the head reads.
        tokens: (B, L - 1) token r + 1.
        following: (B, L - 1, D) the target's last hidden state at token r + 1.
        target: (B, L - 1, V) the target's distribution of token r + 2 at temperature 1.
        mask: (B, L - 1) whether token r + 2 is the target's own.
    """

    states: Tensor
    tokens: Tensor
    following: Tensor
    target: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Batching:
    """Which texts each step reads.

    Attributes:
        texts: the target's own texts.
        rows: texts in a step.
        seed: seed of their order, which changes each time all texts have been read.

    Raises:
        InputError: there are fewer texts than rows.
    """

    texts: OwnTexts
    rows: int
    seed: int

    def __post_init__(self) -> None:
        check_whole("rows", self.rows, 1, most=self.texts.rows)

    def rng(self, step: int) -> np.random.Generator:
        """The random numbers of a step, apart from those that order the texts."""
        return np.random.default_rng([self.seed, 1, step])

    def numbers(self, step: int) -> list[int]:
        """The numbers of the texts of a step."""
        epoch, place = divmod(step, self.texts.rows // self.rows)
        order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.texts.rows)
        return order[place * self.rows : (place + 1) * self.rows].tolist()


class Objective(ABC):
    """The loss of a draft at each step of its training."""

    @abstractmethod
    def __call__(self, step: int) -> Tensor:
        """The loss at a step, a scalar that depends on the weights and on the number of the step alone."""


class HeadObjective(Objective):
    """The loss of a head that is attached to its target.

    Args:
        head: the head.
        target: the target.
        batching: the texts.
    """

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching) -> None:
        batching.texts.require_target(target)
        self.head, self.target, self.batching = head, target, batching
        self.columns = batching.texts.columns(head)

    @cached_property
    def inside(self) -> Tensor | None:
        """(V,) bool, the draft vocabulary of the head; None if it drafts all tokens."""
        tokens = self.head.token_ids
        if tokens is None:
            return None
        return torch.zeros(self.head.config.vocab_size, dtype=torch.bool).index_fill(0, tokens, True)

    def lesson(self, batch: TextBatch) -> Lesson:
        """A batch as the losses read it."""
        states = batch.states.to(self.head.dtype)
        following = states[:, 1:, -1]
        return Lesson(
            states[:, :-1, self.columns].flatten(2),
            batch.tokens[:, 1:],
            following,
            distributions(self.target, following),
            own_tokens(batch),
        )


def passes_of(head: Head, lesson: Lesson, needs: Needs) -> list[Pass]:
    """The passes of a head along the text. The depths of a parallel head are its passes."""
    return unroll(HeadStep(head), head.fuse(lesson.states), lesson.tokens, needs.passes, detached=needs.detached)


@torch.no_grad()
def distributions(target: PreTrainedModel, states: Tensor) -> Tensor:
    """The target's distributions (..., V) for its last hidden states (..., D), in float32 at least."""
    output: Any = target.get_output_embeddings()
    return softmax(output(states.to(target.dtype)))


def own_tokens(batch: TextBatch) -> Tensor:
    """(B, L - 1) bool: rows whose predicted token, r + 2, is the target's own and not after the end of the text."""
    predicted = torch.arange(2, batch.tokens.shape[1] + 1)
    return (predicted >= batch.prompt) & (predicted < batch.lengths[:, None])


def at_rows(values: Tensor, places: Tensor) -> Tensor:
    """(B, R, V) rows of (B, L, V) at places (B, R)."""
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[-1]))
