"""Reach and block efficiency of a tree for rates by depth and rank: the reach of a node is a product of rates."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_probabilities, check_whole, checked
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree, along_paths


@checked
def reach(tree: Tree, acceptance: Acceptance) -> Float64[np.ndarray, " nodes"]:
    """The probability that each node is accepted; 1 for the root.

    The reach of a node is the product of the rates on its path.

    Source: Sequoia (arXiv 2402.12374), Section 3.1; OPT-Tree, Eq. (2), with rates in place of draft probabilities.
    """
    return _reach(tree, acceptance.table)


@checked
def block_efficiency(tree: Tree, acceptance: Acceptance) -> float:
    """E[tau], the expected tokens per target call: the sum of `reach` over all nodes, the root's 1 included."""
    return float(reach(tree, acceptance).sum())


def block_efficiency_interval(
    tree: Tree, acceptance: Acceptance, *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """A credible interval of the block efficiency, from the counts in which the rates were measured.

    The interval is Bayesian and equal-tailed. Each row of rates is drawn `draws` times from a Dirichlet distribution,
    and the quantiles of the block efficiencies are returned. The Dirichlet distribution has one cell for each rank that
    the tree uses and one for everything else. Its parameters are the counts of the cells plus the prior: one
    observation, divided equally among the cells. This is Perks' prior. It weighs one observation for any number of
    cells, so rare ranks stay rare. For a chain it is Jeffreys' prior, 1/2 for accepted and 1/2 for rejected. Positions
    are assumed to be independent.

    The interval always contains the predicted value, `block_efficiency`, which does not use the prior. This value can
    be outside the quantiles, for example if 0 of n or n of n tokens were accepted. Then the nearer end of the interval
    is moved to this value.

    Args:
        tree: the draft tree.
        acceptance: rates with counts.
        level: the probability that the interval covers, between 0 and 1.
        draws: the number of draws.
        seed: the seed of the draws.

    Returns:
        The lower and the upper end, in tokens per target call.

    Raises:
        InputError: the rates have no counts.
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
    """`reach` for tables of rates (..., D, R): (..., budget + 1) float64."""
    depths, ranks = tables.shape[-2:]
    row, rank = np.minimum(tree.depth[1:] - 1, depths - 1), tree.rank[1:]
    inside = rank < ranks
    rate = np.where(inside, tables[..., row, np.where(inside, rank, 0)], 0.0)
    return along_paths(tree.parent, np.concatenate([np.ones((*rate.shape[:-1], 1)), rate], axis=-1), np.multiply)


def falling_rates(first: float, caught: float, *, ranks: int = 8, kept: float = 1.0, depths: int = 1) -> Acceptance:
    """The rates of a draft whose guesses each catch the same share of the misses before them.

    The first guess at the root is right with probability `first`. Each further guess is right with the share `caught`
    of the probability that all guesses before it are wrong. From one depth to the next all rates are multiplied by
    `kept`. The rates are non-increasing in rank if `first` is at least `caught` / (1 + `caught`).

    Args:
        first: rate of the first guess at the root, a probability.
        caught: share of the misses that each further guess catches, from 0 to 1.
        ranks: number of guesses at a node, at least 1.
        kept: factor from one depth to the next, from 0 to 1.
        depths: number of rows of the table, at least 1; the last row also holds for all deeper nodes.

    Raises:
        InputError: an argument is out of range.

    >>> falling_rates(0.6, 0.5, ranks=3).table.tolist()
    [[0.6, 0.2, 0.1]]
    """
    check_probabilities(first=first, caught=caught, kept=kept)
    for name, count in {"ranks": ranks, "depths": depths}.items():
        check_whole(name, count, 1)
    row = np.append(first, (1 - first) * caught * (1 - caught) ** np.arange(ranks - 1))
    return Acceptance.by_depth_and_rank(row * kept ** np.arange(depths)[:, None])
