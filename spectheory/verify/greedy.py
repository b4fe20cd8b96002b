"""Greedy verification: keep what greedy decoding of the target would emit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spectheory.core.draft import Draft, DrawRule
from spectheory.otlp import ArgMax
from spectheory.verify.outcome import Outcome
from spectheory.verify.top_down import TopDown
from spectheory.verify.verifier import Verifier


@dataclass(frozen=True)
class Greedy(Verifier):
    """Keep what greedy decoding of the target would emit: `TopDown` of `ArgMax`. It does not keep the distribution p.

    Acceptance: the depth of the target's greedy text in the tree.
    Cost: O(V) at each accepted node.
    Source: greedy verification, as in Goose, Algorithm 3.
    """

    solver: ArgMax = field(default_factory=ArgMax, init=False)

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """All of them."""
        return self.solver.rules

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        """See Verifier.outcome."""
        return TopDown(self.solver)._outcome(draft, p)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        """See Verifier.sample."""
        return TopDown(self.solver)._sample(draft, p, rng)
