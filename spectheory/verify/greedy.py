"""`Greedy`, greedy verification: keep the tokens that greedy decoding of the target would emit."""

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
    """Keep the tokens that greedy decoding of the target would emit: `TopDown` with `ArgMax`. It does not keep p.

    Acceptance: the number of tokens of the target's greedy text that are a path of the tree.
    Cost: O(V) at each accepted node.
    Source: greedy verification, as in Goose, Algorithm 3.
    """

    solver: ArgMax = field(default_factory=ArgMax, init=False)

    @property
    def rules(self) -> tuple[DrawRule, ...]:
        """All draw rules."""
        return self.solver.rules

    def _outcome(self, draft: Draft, p: Any) -> Outcome:
        return TopDown(self.solver)._outcome(draft, p)

    def _sample(self, draft: Draft, p: Any, rng: np.random.Generator) -> tuple[int, int]:
        return TopDown(self.solver)._sample(draft, p, rng)
