"""Goose, Sections 3 and 4 and Appendix E, one module an idea.

Goose mixes three meanings of acceptance, and each check names those it uses: (1) the indicators of all nodes are
independent and the longest accepted path counts; (2) a walk that commits to the first accepted child, the spine token
tried first, the rate of a child being conditional on earlier siblings having failed; (3) siblings that exclude each
other, as they do under a greedy target. `walks` has a brute-force simulator of each, `budgets` what budgets can buy.
"""

from proofs_check.goose import (
    allocation,
    bound,
    conservative,
    correlation,
    cycles,
    depth,
    dominance,
    gap,
    guarantee,
    harmonic,
    isotropic,
    replacement,
    tables,
)

__all__ = [
    "allocation",
    "bound",
    "conservative",
    "correlation",
    "cycles",
    "depth",
    "dominance",
    "gap",
    "guarantee",
    "harmonic",
    "isotropic",
    "replacement",
    "tables",
]
