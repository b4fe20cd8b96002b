"""Trees of two sources (Goose): a chain of likely tokens, the spine, with branches of less likely ones.

Goose mixes three meanings of acceptance: (1) the indicators of all nodes are independent and the longest accepted path
counts; (2) a walk commits to the first accepted child, the rate of a child being conditional on its earlier siblings
having failed; (3) siblings exclude each other, as they do under a greedy target. Each function here names its own:
`sequential` siblings are (2), `exclusive` ones are (3), and only `longest_path_yield` is (1).
"""

from spectheory.goose.algorithm_1 import spine_tree
from spectheory.goose.allocation import Allocation, allocate, harmonic_widths
from spectheory.goose.chain_condition import chain_is_optimal
from spectheory.goose.equation_1 import budget_as_printed, budget_of_bound, spine_bound, tree_of_bound
from spectheory.goose.isotropic import isotropic_yield, longest_path_yield
from spectheory.goose.optimal import optimal_tree
from spectheory.goose.two_source import SpineTree

__all__ = [
    "Allocation",
    "SpineTree",
    "allocate",
    "budget_as_printed",
    "budget_of_bound",
    "chain_is_optimal",
    "harmonic_widths",
    "isotropic_yield",
    "longest_path_yield",
    "optimal_tree",
    "spine_bound",
    "spine_tree",
    "tree_of_bound",
]
