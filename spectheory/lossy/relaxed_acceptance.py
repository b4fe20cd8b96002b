"""`RelaxedAcceptance`, the relaxed acceptance of TensorRT-LLM for reasoning models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectheory.core.arrays import Vector
from spectheory.core.draft import top_tokens
from spectheory.core.errors import InputError
from spectheory.lossy.rule import LossyRule
from spectheory.otlp import ArgMax


@dataclass(frozen=True)
class RelaxedAcceptance(LossyRule):
    """Accept the first draft among the `top` most probable tokens of p with p(x) >= max p - delta, else emit argmax p.

    It stands in for greedy decoding. With top=1 it is greedy decoding.

    Acceptance: P(a draft is such a token), or argmax p is a draft.
    Cost: O(V top).
    Source: TensorRT-LLM, `use_relaxed_acceptance_for_thinking`, `relaxed_topk` and `relaxed_delta` of its MTP
        configuration, used between the tokens that begin and end the thinking phase. The defaults here are the setting
        recommended for DeepSeek-R1. One version of its code compares probabilities, as here.

    Attributes:
        top: number of candidates.
        delta: how far the probability of a candidate may be below the largest one.
    """

    top: int = 10
    delta: Any = 0.6

    def __post_init__(self) -> None:
        if self.top < 1 or not self.delta >= 0:
            raise InputError(f"top must be at least 1, and delta at least 0, got top={self.top} and delta={self.delta}")

    def wanted(self, p: Vector) -> Vector:
        """See LossyRule.wanted: argmax p."""
        return ArgMax()._distribution(p, p, [])

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        candidates = top_tokens(p, self.top)
        least = p[candidates[0]] - self.delta
        for token in drafts:
            if token in candidates and p[token] >= least:
                distribution = self.wanted(p) * 0
                distribution[token] += 1
                return distribution
        return self.wanted(p)
