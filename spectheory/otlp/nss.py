"""`NSS`, which draws from the target's distribution and ignores the drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, copy_of, power
from spectheory.core.draft import DrawRule
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class NSS(Solver):
    """Emit a token drawn from p. It counts as accepted if it is among the drafts.

    Lossless for any drafts, adversarial ones too, because the drafts are ignored.

    Acceptance: sum_t p(t) (1 - (1 - q(t))^k) for independent drafts; sum_t p(t) P(t among the drafts) for all others.
    Cost: O(V).
    Source: SpecInfer (arXiv 2305.09781), the baseline; Dynamic Delayed Tree Expansion, Algorithms 6 and 11.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = tuple(DrawRule)

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        return copy_of(p)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        return 1 - p @ power(1 - q, k)
