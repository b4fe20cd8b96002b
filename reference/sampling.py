"""Sampling settings: how logits become the distribution of the next token."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance

LEAST_TEMPERATURE = 1e-3
"""The lowest temperature of sampling. Below it, logits divided by the temperature overflow float32."""


@dataclass(frozen=True)
class Sampling:
    """Temperature, top-k and top-p, applied in this order as in transformers, to the target and to the draft alike.

    Attributes:
        temperature: number that logits are divided by; 0 is greedy decoding, which ignores top_k and top_p.
        top_k: keep the top_k most probable tokens, and all tokens that tie with the last of them; None keeps all.
        top_p: keep the smallest set of most probable tokens whose probabilities sum to top_p or more; 1 keeps all.

    Raises:
        InputError: temperature is neither 0 nor at least `LEAST_TEMPERATURE`, top_k < 1, or top_p is not in (0, 1].
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature != 0 and not LEAST_TEMPERATURE <= self.temperature < float("inf"):
            raise InputError(f"temperature must be 0 (greedy) or at least {LEAST_TEMPERATURE}, got {self.temperature}")
        if self.top_k is not None and not (isinstance(self.top_k, Integral) and self.top_k >= 1):
            raise InputError(f"top_k must be a whole number of at least 1, or None for all tokens, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, got {self.top_p}")

    @classmethod
    def of(cls, stamp: Provenance) -> Self:
        """The sampling of a text by its provenance; greedy decoding if that has no temperature."""
        return cls(stamp.temperature or 0.0, stamp.top_k, 1.0 if stamp.top_p is None else stamp.top_p)

    @property
    def stamp(self) -> dict[str, Any]:
        """The fields of a provenance that name this sampling."""
        if self.greedy:
            return {"temperature": 0.0}
        limits = {"top_k": self.top_k, "top_p": None if self.top_p == 1 else self.top_p}
        return {"temperature": self.temperature, **limits}

    def __str__(self) -> str:
        return Provenance("sampling", **self.stamp).sampling

    @property
    def greedy(self) -> bool:
        """Whether each token of the text is the target's most probable token."""
        return self.temperature == 0

    def distribution(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        """Distribution of the next token for logits; not for temperature 0."""
        scores = logits if self.temperature == 1 else logits / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            scores = scores.masked_fill(scores < scores.topk(self.top_k).values[..., -1:], -torch.inf)
        kept = torch.softmax(scores, dim=-1)
        if self.top_p == 1:
            return kept
        falling, order = kept.sort(dim=-1, descending=True, stable=True)
        falling = falling.masked_fill(falling.cumsum(-1) - falling >= self.top_p, 0)
        kept = torch.zeros_like(kept).scatter(-1, order, falling)
        return kept / kept.sum(-1, keepdim=True)

    def draft_distribution(self, logits: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows V"]:
        """Distribution of the draft for logits; at temperature 0 their softmax, to rank tokens."""
        return torch.softmax(logits, dim=-1) if self.greedy else self.distribution(logits)


def require_drawing(sampling: Sampling) -> None:
    """Raise InputError for greedy decoding with top-k or top-p, which it would ignore."""
    if sampling.greedy and (sampling.top_k is not None or sampling.top_p != 1):
        raise InputError(
            f"top_k={sampling.top_k} and top_p={sampling.top_p:g} have no effect at temperature 0: raise the "
            "temperature, or leave them out"
        )
