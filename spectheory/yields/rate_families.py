"""Acceptance rates from four numbers, for exploring without a measurement."""

from __future__ import annotations

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.checks import check_probabilities, check_whole


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
