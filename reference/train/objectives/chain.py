"""The objectives of losses along the text: `ChainObjective` of a head, `DraftModelObjective` of a draft model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from reference.heads import Head
from reference.losses import ChainLoss, Pass, on_draft_vocabulary
from reference.train.objectives.lessons import (
    Batching,
    HeadObjective,
    Lesson,
    Objective,
    distributions,
    own_tokens,
    passes_of,
)
from spectheory.core.errors import InputError


class ChainObjective(HeadObjective):
    """A loss that follows the text, pass by pass."""

    def __init__(self, head: Head, target: PreTrainedModel, batching: Batching, loss: ChainLoss) -> None:
        super().__init__(head, target, batching)
        self.loss = loss

    def __call__(self, step: int) -> Tensor:
        """See Objective."""
        return self.of(self.lesson(self.batching.texts.batch(self.batching.numbers(step))))

    def of(self, lesson: Lesson) -> Tensor:
        """The loss of one batch."""
        return self.of_passes(passes_of(self.head, lesson, self.loss.needs), lesson)

    def of_passes(self, passes: Sequence[Pass], lesson: Lesson) -> Tensor:
        """The loss of one batch, of which the passes are known."""
        following = lesson.following if self.loss.needs.target_features else None
        if self.inside is None:
            return self.loss(passes, lesson.target, lesson.mask, target_features=following)
        target, coverage, likeliest_inside = on_draft_vocabulary(lesson.target, self.inside)
        mask = lesson.mask & likeliest_inside
        return self.loss(passes, target, mask, target_features=following, coverage=coverage)


class DraftModelObjective(Objective):
    """A loss of one pass for a draft model, which reads tokens only."""

    def __init__(self, draft: PreTrainedModel, target: PreTrainedModel, batching: Batching, loss: ChainLoss) -> None:
        if loss.passes != 1 or loss.needs.target_features:
            raise InputError(
                f"loss must have one pass and compare no features to train a draft model, got {loss.name} with "
                f"{loss.passes} passes: a draft model reads no features; use tv, kl, lk_alpha or lk_lambda"
            )
        batching.texts.require_target(target)
        self.draft, self.target, self.batching, self.loss = draft, target, batching, loss

    def __call__(self, step: int) -> Tensor:
        """See Objective."""
        batch = self.batching.texts.batch(self.batching.numbers(step))
        model: Any = self.draft
        logits = model(batch.tokens, use_cache=False).logits[:, 1:]
        target = distributions(self.target, batch.states[:, 1:, -1])
        return self.loss([Pass(logits[..., :1], logits)], target, own_tokens(batch))
