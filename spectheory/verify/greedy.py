"""`Greedy`, greedy verification: keep the tokens that greedy decoding of the target would emit."""

from __future__ import annotations

from dataclasses import dataclass, field

from spectheory.otlp import ArgMax, Solver
from spectheory.verify.top_down import TopDown


@dataclass(frozen=True)
class Greedy(TopDown):
    """Keep the tokens that greedy decoding of the target would emit: `TopDown` with `ArgMax`. It does not keep p.

    Acceptance: the number of tokens of the target's greedy text that are a path of the tree.
    Cost: O(V) at each accepted node.
    Source: greedy verification, as in Goose, Algorithm 3.
    """

    solver: Solver = field(default_factory=ArgMax, init=False)
