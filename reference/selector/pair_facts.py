"""`PairFacts`, what a selector must share with the pair that it selects for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from reference.models import Pair
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class PairFacts:
    """Sizes and weights of a pair.

    Attributes:
        target_hidden, draft_hidden: hidden sizes.
        vocabulary: number of tokens of a distribution.
        weights: hash of the weights of both models.
    """

    target_hidden: int
    draft_hidden: int
    vocabulary: int
    weights: str

    @classmethod
    def of(cls, pair: Pair) -> Self:
        """The facts of a pair.

        Raises:
            InputError: the draft is a draft head.
        """
        pair.require_draft_model("a selector")
        target, draft = (int(getattr(model.config, "hidden_size", 0)) for model in (pair.target, pair.draft))
        return cls(target, draft, pair.vocab_size, pair.fingerprint)

    def require(self, other: PairFacts, whose: str) -> None:
        """Raise InputError, which names the first fact that differs, if `whose` facts, `other`, are not these."""
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if ours != theirs:
                raise InputError(
                    f"the selector is for a pair with {field.name} {ours}, {whose} has {theirs}: train a selector for "
                    "this pair"
                )
