"""`Mismatch`: rejection sampling with distributions that were processed on one side only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spectheory.core.arrays import Vector, copy_of
from spectheory.core.draft import top_tokens
from spectheory.core.errors import InputError
from spectheory.lossy.rule import LossyRule
from spectheory.otlp import Naive


class Processor(Protocol):
    """A function of a distribution, such as a truncation."""

    def __call__(self, distribution: Vector) -> Vector:
        """The processed distribution (V,)."""
        ...


@dataclass(frozen=True)
class TopK:
    """Keep the k most probable tokens; of equal ones the lower token."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"k must be at least 1 token, got {self.k}")

    def __call__(self, distribution: Vector) -> Vector:
        """See Processor."""
        return _kept(distribution, top_tokens(distribution, self.k))


@dataclass(frozen=True)
class TopP:
    """Keep the most probable tokens until their sum reaches `mass`; of equal ones the lower token comes first."""

    mass: Any

    def __post_init__(self) -> None:
        if not 0 < self.mass <= 1:
            raise InputError(f"mass must be above 0 and at most 1, got {self.mass}")

    def __call__(self, distribution: Vector) -> Vector:
        """See Processor."""
        kept, total = [], 0
        for token in top_tokens(distribution, len(distribution)):
            if total >= self.mass:
                break
            kept.append(token)
            total = total + distribution[token]
        return _kept(distribution, kept)


def _kept(distribution: Vector, tokens: list[int]) -> Vector:
    kept = distribution * 0
    for token in tokens:
        kept[token] += distribution[token]
    return kept / kept.sum()


@dataclass(frozen=True)
class Mismatch(LossyRule):
    """Rejection sampling of the first draft (`otlp.Naive`) in which target, draft or draws were processed alone.

    The rule reads `target(p)` in place of p and `draft(q)` in place of q, and the drafts are drawn from `drawn(q)`. It
    stands in for p. A processor that is None changes nothing. With `target` alone, the output is exactly target(p), so
    the total variation is the mass that the processor moves. If p itself is processed, give the processed p.

    Acceptance: summed over the drafts; see `LossyRule`.
    Cost: O(V), and the cost of the processors.
    Source: for example transformers 47932 (drafts after a top-k processor, q from before it) and vLLM 42744 (a
        processor that ran on some rows of p only); see the zoo of the certifier.

    Attributes:
        target: processor of the p that the rule reads.
        draft: processor of the q that the rule reads.
        drawn: processor of the distribution that the drafts are drawn from.
    """

    target: Processor | None = None
    draft: Processor | None = None
    drawn: Processor | None = None

    def drawn_from(self, q: Vector) -> Vector:
        """See LossyRule.drawn_from."""
        return self.drawn(q) if self.drawn else q

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        read = self.target(p) if self.target else copy_of(p)
        return Naive()._distribution(read, self.draft(q) if self.draft else q, drafts)
