"""What a dynamic policy hands back: the tree with its tokens, what it is worth, and what drafting it took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectheory.core.tree import Tree

UNKNOWN_TOKEN = -1
"""At the root, whose token is committed and none of the policy's business."""


@dataclass(frozen=True, eq=False)
class Drafted:
    """A drafted tree of n nodes, in order of (probability, depth, rank, parent): every prefix is a tree.

    Attributes:
        tree: siblings in order of probability, so that their rank is that among the draft's children.
        tokens: (n + 1,) int64; the root's is `UNKNOWN_TOKEN`.
        probability: (n + 1,) float64, the product of the draft's probabilities on the path; 1 for the root.
        budget: most drafted nodes that the policy was allowed; n is less where it stopped sooner.
        draft_calls: forwards of the draft.
        draft_tokens: paths that these forwards expanded, the root's among them.
    """

    tree: Tree
    tokens: np.ndarray
    probability: np.ndarray
    budget: int
    draft_calls: int
    draft_tokens: int

    @property
    def expected(self) -> float:
        """1 + the sum of the probabilities: the block efficiency where the target accepts at the draft's rates.

        Source: OPT-Tree, Eq. (3), which leaves out the 1, the target's own token.
        """
        return float(self.probability.sum())
