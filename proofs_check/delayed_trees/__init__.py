"""Dynamic delayed tree expansion, in the paper's order, one module an idea.

Drafting, coins and walks down the tree are played in full, in Fractions, on all small laws; a check says which. Where a
printed step of a node solver divides 0 by 0 in a branch of probability 0, the branch counts nothing; Khisti's solver is
read with the tournament given, whose linear program the paper leaves to its source.
"""

from proofs_check.delayed_trees import (  # noqa: I001 - in the paper's order
    verification,
    optimality,
    traversal,
    solver_optimal,
    solver_trees,
    solver_order,
    expansion,
    branching_point,
    solvers,
    solver_factor,
    solver_rates,
    solver_branching,
    policies,
    decoders,
    roots,
    tables,
    solver_again,
)

__all__ = [
    "branching_point",
    "decoders",
    "expansion",
    "optimality",
    "policies",
    "roots",
    "solver_again",
    "solver_branching",
    "solver_factor",
    "solver_optimal",
    "solver_order",
    "solver_rates",
    "solver_trees",
    "solvers",
    "tables",
    "traversal",
    "verification",
]
