"""Reliability of a draft: how often its token of each rank is the target's, and the probability that it stated."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

RANKS = 4
"""Ranks of the draft's tokens that are judged, the most probable one first."""
BINS = 10
"""Equal parts of the probabilities from 0 to 1; a probability on a boundary is in the upper part."""


def ranked(
    p: Shaped[np.ndarray, "n V"], q: Shaped[np.ndarray, "n V"]
) -> tuple[Shaped[np.ndarray, "n ranks"], Shaped[np.ndarray, "n ranks"]]:
    """The draft's largest probabilities, and the target's of the same tokens; ties: lower token first.

    Args:
        p: (n, V) the target's distributions.
        q: (n, V) the draft's.
    """
    promised, hits = np.zeros((2, len(q), RANKS))
    left, rows = q.copy(), np.arange(len(q))
    for rank in range(min(RANKS, q.shape[1])):
        tokens = left.argmax(1)
        promised[:, rank], hits[:, rank] = q[rows, tokens], p[rows, tokens]
        left[rows, tokens] = -1
    return promised, hits


def reliability(
    visits: Shaped[np.ndarray, " n"], promised: Shaped[np.ndarray, "n ranks"], hits: Shaped[np.ndarray, "n ranks"]
) -> Shaped[np.ndarray, "ranks bins 3"]:
    """Sums of visits, of the draft's and of the target's probabilities, by rank and part.

    Args:
        visits: (n,) expected number of visits of each position.
        promised: (n, `RANKS`) the draft's probabilities there.
        hits: (n, `RANKS`) the target's probabilities of the same tokens.
    """
    table = np.zeros((RANKS, BINS, 3))
    places = np.minimum((promised * BINS).astype(np.int64), BINS - 1)
    values = np.stack([np.ones_like(promised), promised, hits], -1) * visits[:, None, None]
    np.add.at(table, (np.arange(RANKS), places), values)
    return table
