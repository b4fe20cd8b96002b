"""The formulas of Goose for trees of two sources: the spine, a chain of likely tokens, and branches of unlikely tokens.

The tokens of the spine are copied from earlier text (a match). The tokens of the branches come from a second source
with a lower rate.

Goose uses three models of acceptance:

1. Independent nodes: each node is accepted or not independently of the others, and the longest accepted path counts.
2. Sequential siblings: the children of a node are tried one after the other, and the walk goes on at the first accepted
   child. The rate of a child is conditional on the rejection of its earlier siblings.
3. Exclusive siblings: at most one child of a node can be right, as under a greedy target.

Each function says which model it uses: "sequential" is (2), "exclusive" is (3).
"""

from spectheory.goose.algorithm_1 import spine_tree
from spectheory.goose.optimal import optimal_tree
from spectheory.goose.two_source import SpineTree
from spectheory.goose.widths import Allocation, allocate, budget_of_bound, harmonic_widths, spine_bound, tree_of_bound

__all__ = [
    "Allocation",
    "SpineTree",
    "allocate",
    "budget_of_bound",
    "harmonic_widths",
    "optimal_tree",
    "spine_bound",
    "spine_tree",
    "tree_of_bound",
]
