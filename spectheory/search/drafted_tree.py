"""`Drafted`, the result of a drafting policy: the tree, its tokens and probabilities, and the draft calls it took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from spectheory.core.tree import Tree

UNKNOWN_TOKEN = -1
"""The entry of the root in `Drafted.tokens`: the root is the last committed token, which a policy does not see."""


@dataclass(frozen=True, eq=False)
class Drafted:
    """A tree of n drafted nodes. The most probable nodes come first, and every prefix is a tree.

    Nodes of equal probability are ordered by smaller depth, then by lower rank, then by the order of their parents.

    Attributes:
        tree: the tree. Siblings are in the order of the draft's probabilities.
        tokens: token of each node; `UNKNOWN_TOKEN` for the root.
        probability: the product of the draft's probabilities on the path; 1 for the root.
        budget: maximum number of drafted nodes that the policy was allowed; n is smaller if the policy stopped earlier.
        draft_calls: number of draft forwards.
        draft_tokens: number of nodes that these forwards expanded, the root included.
    """

    tree: Tree
    tokens: Int64[np.ndarray, " nodes"]
    probability: Float64[np.ndarray, " nodes"]
    budget: int
    draft_calls: int
    draft_tokens: int

    @property
    def expected(self) -> float:
        """1 + the sum of the drafted nodes' probabilities.

        This is the block efficiency if the target accepts each token with the probability that the draft gives it.

        Source: OPT-Tree, Eq. (3). The source leaves out the 1, which is the token that the target adds.
        """
        return float(self.probability.sum())
