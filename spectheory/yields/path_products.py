"""Yield under rates by depth and rank: a node is worth the product of the rates on its path."""

from __future__ import annotations

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree


def reach(tree: Tree, acceptance: Acceptance) -> np.ndarray:
    """(budget + 1,) float64: the probability that each node is accepted; 1 for the root.

    Source: Sequoia (arXiv 2402.12374), Section 3.1; OPT-Tree, Eq. (2), with rates in place of draft probabilities.
    """
    return _reach(tree, acceptance.table)


def block_efficiency(tree: Tree, acceptance: Acceptance) -> float:
    """E[tau], tokens emitted per target call: 1 + the sum over drafted nodes of the product of rates on the path."""
    return float(reach(tree, acceptance).sum())


def block_efficiency_interval(
    tree: Tree, acceptance: Acceptance, *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Interval of the block efficiency that carries the counts behind the rates, and holds the predicted one.

    A Bayesian credible interval, equal-tailed: each row of rates is redrawn `draws` times from a Dirichlet distribution
    whose parameters are the expected counts of the ranks that the tree uses and of everything else, with one
    observation more shared out evenly among these cells, and the quantiles of the yields are returned. For a chain that
    is Jeffreys' half for accepted and half for not; in general Perks' prior, which weighs one observation however many
    the cells, so that sparse ranks stay sparse. Positions are taken as independent. The prior does not enter the
    prediction, which an
    end of the interval is moved to where it lies outside: at 0 or all of n accepted.

    Raises:
        InputError: the rates carry no counts.
    """
    if acceptance.trials is None:
        raise InputError("block_efficiency_interval needs counts: make the Acceptance with from_counts, or measure it")
    rng = np.random.default_rng(seed)
    used = acceptance.table[:, : max(1, int(tree.rank.max()) + 1)]
    cells = np.hstack([used, (1 - used.sum(1, keepdims=True)).clip(0)])
    counts = cells * acceptance.trials[:, None] + 1 / cells.shape[1]
    gamma = rng.standard_gamma(counts, size=(draws, *counts.shape))
    tables = (gamma / gamma.sum(-1, keepdims=True))[..., :-1]
    low, high = np.quantile(_reach(tree, tables).sum(-1), [(1 - level) / 2, (1 + level) / 2])
    predicted = block_efficiency(tree, acceptance)
    return min(float(low), predicted), max(float(high), predicted)


def _reach(tree: Tree, tables: np.ndarray) -> np.ndarray:
    """(..., budget + 1) for rates (..., D, R)."""
    depths, ranks = tables.shape[-2:]
    row, rank = np.minimum(tree.depth[1:] - 1, depths - 1), tree.rank[1:]
    inside = rank < ranks
    rate = np.where(inside, tables[..., row, np.where(inside, rank, 0)], 0.0)
    value = np.concatenate([np.ones((*rate.shape[:-1], 1)), rate], axis=-1)
    ancestor = np.maximum(tree.parent, 0)
    while ancestor.any():  # pointer doubling: log2(depth) rounds
        value *= value[..., ancestor]
        ancestor = ancestor[ancestor]
    return value
