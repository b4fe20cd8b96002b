"""Temperature, truncation and penalties inside a world, so that the target is the processed distribution."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from spectheory.core.arrays import Vector
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.world import Context, World


@dataclass(frozen=True)
class Processing:
    """What an engine does with the logits of a model before it draws a token, in the order of vLLM.

    Repetition, presence and frequency penalties, then temperature, min-p, top-k and top-p. The whole context counts as
    generated text for the penalties. The logits are log p.

    Attributes:
        temperature: divisor of the logits; 0 keeps only the most probable token.
        top_k: number of most probable tokens that are kept, and those that are as probable as the last one; None keeps
            all.
        top_p: the most probable tokens are kept until their probabilities sum to this.
        min_p: tokens are kept if they are at least this part as probable as the most probable one.
        repetition: factor on the (negative) logits of the tokens in the context; 1 is none.
        presence: subtracted from the logits of the tokens in the context.
        frequency: subtracted from the logit of a token for each time that it is in the context.

    Raises:
        InputError: a field is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0

    def __post_init__(self) -> None:
        for name, least, most, is_open in (
            ("temperature", 0, math.inf, False),
            ("top_p", 0, 1, True),
            ("min_p", 0, 1, False),
            ("repetition", 0, math.inf, True),
        ):
            value = getattr(self, name)
            if not (least < value <= most or (value == least and not is_open)) or math.isinf(value):
                bound = "above" if is_open else "at least"
                raise InputError(f"{name} must be {bound} {least} and at most {most}, got {value}")
        if self.top_k is not None:
            check_whole("top_k", self.top_k, 1, ": None keeps all tokens")

    def __call__(self, distribution: Vector, context: Context = ()) -> np.ndarray:
        """(V,) the processed distribution after a context."""
        p = np.asarray(distribution, dtype=np.float64)
        with np.errstate(divide="ignore"):
            logits = np.log(p)
        for token, count in Counter(context).items():
            logits[token] = logits[token] * self.repetition - self.presence - count * self.frequency
        if self.temperature == 0:
            return np.eye(len(p))[int(logits.argmax())]
        p = _softmax(logits / self.temperature)
        p = _kept(p, p >= self.min_p * p.max())
        if self.top_k is not None and self.top_k < len(p):
            p = _kept(p, p >= np.sort(p)[-self.top_k])
        order = np.argsort(-p, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(p[order])[:-1]])
        is_kept = np.zeros(len(p), bool)
        is_kept[order[before < self.top_p]] = True
        return _kept(p, is_kept)


def processed(world: World, target: Processing, draft: Processing | None = None) -> World:
    """The world with the processed distributions of the target, and of the draft if `draft` is given."""
    return World(
        lambda context: target(world.p(context), context),
        lambda context: world.q(context) if draft is None else draft(world.q(context), context),
    )


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def _kept(p: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    kept = np.where(is_kept, p, 0.0)
    return kept / kept.sum()
