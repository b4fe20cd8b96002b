"""Yield under rates by depth and rank: a node is worth the product of the rates on its path."""

from __future__ import annotations

import numpy as np

from spectheory.acceptance import Acceptance
from spectheory.tree import Tree


def reach(tree: Tree, acceptance: Acceptance) -> np.ndarray:
    """(budget + 1,) float64: the probability that each node is accepted; 1 for the root.

    Source: Sequoia (arXiv 2402.12374), Section 3.1; OPT-Tree, Eq. (2), with rates in place of draft probabilities.
    """
    row = np.minimum(tree.depth[1:] - 1, acceptance.depths - 1)
    rank = tree.rank[1:]
    inside = rank < acceptance.ranks
    rate = np.where(inside, acceptance.table[row, np.where(inside, rank, 0)], 0.0)
    value = np.concatenate([[1.0], rate])
    ancestor = np.maximum(tree.parent, 0)
    while ancestor.any():  # pointer doubling: log2(depth) rounds
        value *= value[ancestor]
        ancestor = ancestor[ancestor]
    return value


def block_efficiency(tree: Tree, acceptance: Acceptance) -> float:
    """E[tau], tokens emitted per target call: 1 + the sum over drafted nodes of the product of rates on the path."""
    return float(reach(tree, acceptance).sum())


def block_efficiency_interval(
    tree: Tree, acceptance: Acceptance, *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Interval of the block efficiency that carries the counts behind the rates.

    Each row of rates is redrawn `draws` times from a Dirichlet law with the expected counts as its parameters (the
    Bayesian bootstrap of the recorded positions, taken as independent), and the quantiles of the yields are returned.

    Raises:
        ValueError: the rates carry no counts.
    """
    if acceptance.trials is None:
        raise ValueError("block_efficiency_interval needs counts: make the Acceptance with from_counts, or measure it")
    rng = np.random.default_rng(seed)
    missed = 1 - acceptance.table.sum(1, keepdims=True)
    counts = np.hstack([acceptance.table, missed.clip(0)]) * acceptance.trials[:, None]
    gamma = rng.standard_gamma(counts, size=(draws, *counts.shape))
    tables = (gamma / gamma.sum(-1, keepdims=True))[..., :-1]
    yields = [block_efficiency(tree, Acceptance(table)) for table in tables]
    low, high = np.quantile(yields, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
