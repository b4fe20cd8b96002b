"""`FLy`, loosely speculative decoding: a mismatch is forgiven if the drafts after it match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar, Literal

from spectheory.core.arrays import Vector, copy_of, normalised, one_of, set_zero, zero_of
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp import ArgMax
from spectheory.verify.single_path import SinglePath

TERMS = 3
"""Number of the most probable tokens whose terms the entropy of FLy counts."""


@dataclass(frozen=True)
class FLy(SinglePath):
    """Match the path with the target's own tokens, and forgive a mismatch if the next window - 1 tokens match.

    At each position the target's token is argmax p, or with `greedy=False` a draw from p. The path is kept up to the
    first mismatch that is not forgiven; there the target's token is emitted. A mismatch is forgiven if the next
    window - 1 drafts match, the draft has at least `window` more tokens after it, and the entropy of p there is at
    least `entropy`. The entropy counts the terms -p log p of the 3 most probable tokens.

    It stands in for greedy decoding, or for p. It reads drafts of every draw rule, because it is lossless for none.

    Acceptance: sum_i i P(the path is kept up to i), by a recursion over the matches.
    Cost: O(L V).
    Source: arXiv 2511.22972, and the code of its authors (`fly/models/FLy.py`).

    Attributes:
        window: number of drafts that must match after a mismatch, plus one.
        entropy: the least entropy, in nats, at which a mismatch may be forgiven.
        greedy: whether the target's tokens are argmax p.
    """

    window: int = 6
    entropy: float = 0.3
    greedy: bool = True

    takes: ClassVar[Literal["trees", "paths", "chains"]] = "chains"

    def __post_init__(self) -> None:
        if self.window < 2:
            raise InputError(f"window must be at least 2 tokens, got {self.window}")

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """All draw rules."""
        return tuple(DrawRule)

    def wanted(self, p: Vector) -> Vector:
        """The distribution that the rule stands in for: argmax p, or p."""
        return ArgMax()._distribution(p, p, []) if self.greedy else copy_of(p)

    def _path_outcome(
        self, tokens: Sequence[int], p: Sequence[Vector], q: Sequence[Vector]
    ) -> tuple[list[Any], list[Vector]]:
        """See SinglePath._path_outcome."""
        wanted = [self.wanted(row) for row in p]
        match = [row[token] for row, token in zip(wanted, tokens, strict=False)]
        stop = [zero_of(p[0])] * (len(tokens) + 1)
        going: dict[int | None, Any] = {None: one_of(p[0])}  # by the place of the last mismatch still to be forgiven
        for place, chance in enumerate(match):
            after: dict[int | None, Any] = {}
            for pending, mass in going.items():
                settled = pending is not None and place == pending + self.window
                before = None if settled else pending
                after[before] = after.get(before, 0) + mass * chance
                if before is None and self._may_be_forgiven(place, len(tokens), p[place]):
                    after[place] = after.get(place, 0) + mass * (1 - chance)
                else:
                    at = place if before is None else before
                    stop[at] = stop[at] + mass * (1 - chance)
            going = after
        stop[-1] = sum(going.values())
        return stop, [*map(_without, wanted, tokens), wanted[-1]]

    def _may_be_forgiven(self, place: int, length: int, p: Vector) -> bool:
        largest = sorted(map(float, p), reverse=True)[:TERMS]
        return place + self.window < length and -sum(x * log(x) for x in largest if x > 0) >= self.entropy


def _without(wanted: Vector, token: int) -> Vector:
    rest = copy_of(wanted)
    set_zero(rest, token)
    return normalised(rest, otherwise=wanted)
