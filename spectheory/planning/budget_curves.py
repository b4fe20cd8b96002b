"""`BudgetCurves`, what each budget can buy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from spectheory.planning.candidates import Candidates


class BudgetCurves(NamedTuple):
    """The best predictions for N budgets. The first entry is without speculation.

    Attributes:
        budgets: the budgets, increasing from 0: all within the limits, or those at which trees were replayed.
        tree_block_efficiency: the highest block efficiency of any tree.
        tree_speedup: the speedup of the fastest tree. It may be shallower or narrower than the tree of highest block
            efficiency.
        chain_block_efficiency, chain_speedup: block efficiency and speedup of the chain.
    """

    budgets: Int[np.ndarray, " N"]
    tree_block_efficiency: Float[np.ndarray, " N"]
    tree_speedup: Float[np.ndarray, " N"]
    chain_block_efficiency: Float[np.ndarray, " N"]
    chain_speedup: Float[np.ndarray, " N"]

    @property
    def fastest_chain(self) -> int:
        """The number of tokens of the fastest chain; 0 if none is faster than plain decoding."""
        return int(self.budgets[self.chain_speedup.argmax()])

    def speedup_of_chain(self, length: int) -> float:
        """The speedup of the chain of this length, or of the longest shorter one among the budgets."""
        return float(self.chain_speedup[np.searchsorted(self.budgets, length, side="right") - 1])

    @property
    def highest_speedup(self) -> float:
        """The highest speedup of a tree or chain with drafted nodes; 0 if there is none."""
        return float(np.max([*self.tree_speedup[1:], *self.chain_speedup[1:]], initial=0.0))


def curves_of(candidates: Candidates, speedups: Float[np.ndarray, " candidates"]) -> BudgetCurves:
    """The best predictions for every budget, by the rates; `speedups` is that of each candidate."""
    return BudgetCurves(
        np.arange(len(candidates.free)),
        candidates.block_efficiency[candidates.free],
        candidates.fastest_by_budget(speedups),
        candidates.block_efficiency[candidates.chains],
        speedups[candidates.chains],
    )
