"""`AcceptanceThreshold`, the acceptance thresholds of SGLang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectheory.core.arrays import Vector, copy_of, normalised, one_of, set_zero, zero_of
from spectheory.core.errors import InputError
from spectheory.lossy.rule import LossyRule


@dataclass(frozen=True)
class AcceptanceThreshold(LossyRule):
    """Try the drafts in order with one coin u: accept x if u < (sum of p over the drafts so far) / accumulated.

    A draft with p(x) >= single is accepted whatever u is. If all drafts are rejected, emit a token of p without them.
    With both thresholds 1, which is the default of SGLang, this is sampling from p, and lossless for any drafts.

    Acceptance: min(1, p(drafts) / accumulated), and 1 if a draft has p(x) >= single.
    Cost: O(V + k).
    Source: SGLang, `--speculative-accept-threshold-single` and `--speculative-accept-threshold-acc`, and its kernel
        `tree_speculative_sampling_target_only`, which compares the coin with `<=`.

    Attributes:
        single: the threshold of p(x), above 0.
        accumulated: the divisor of the sum of p, above 0 and at most 1.
    """

    single: Any = 1
    accumulated: Any = 1

    def __post_init__(self) -> None:
        if not (self.single > 0 and 0 < self.accumulated <= 1):
            raise InputError(
                "single must be above 0, and accumulated above 0 and at most 1, got "
                f"single={self.single} and accumulated={self.accumulated}"
            )

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        reached, total, one, kept, rest = zero_of(p), zero_of(p), one_of(p), {}, copy_of(p)
        for token in dict.fromkeys(drafts):
            total = total + p[token]
            until = one if p[token] >= self.single else max(reached, min(one, total / self.accumulated))
            kept[token], reached = until - reached, until
            set_zero(rest, token)
        distribution = normalised(rest, otherwise=p) * (1 - reached)
        for token, chance in kept.items():
            distribution[token] += chance
        return distribution
