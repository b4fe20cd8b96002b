"""`Typical`, the typical acceptance of Medusa."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from spectheory.core.arrays import Vector, copy_of, zeros_like
from spectheory.core.errors import InputError
from spectheory.lossy.rule import LossyRule


@dataclass(frozen=True)
class Typical(LossyRule):
    """Accept the first draft with p(x) > min(epsilon, delta exp(-H(p))), where H is the entropy of p in nats.

    If there is none, emit a token of p. Medusa keeps the longest accepted path of its tree; on a chain this is the
    same. Its own sampler draws other tokens from p without those below the threshold; that is a processor of the
    target, so give the processed p.

    The threshold is computed in float64, the distribution in the numbers of p.

    Acceptance: P(a draft has p(x) above the threshold) + the rest times the p of the drafts.
    Cost: O(V).
    Source: arXiv 2401.10774, Section 2.3; the defaults are those of its code (posterior_threshold, posterior_alpha).

    Attributes:
        epsilon: the largest threshold.
        delta: the factor of exp(-H(p)).
    """

    epsilon: Any = 0.3
    delta: Any = 0.09

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.delta >= 0):
            raise InputError(f"epsilon and delta must be at least 0, got epsilon={self.epsilon} and delta={self.delta}")

    def threshold(self, p: Vector) -> Any:
        """The threshold for this p."""
        entropy = -sum(share * log(share) for share in map(float, p) if share > 0)
        return min(self.epsilon, self.delta * exp(-entropy)) if self.delta else self.delta

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        threshold = self.threshold(p)
        for token in drafts:
            if p[token] > threshold:
                distribution = zeros_like(p)
                distribution[token] += 1
                return distribution
        return copy_of(p)
