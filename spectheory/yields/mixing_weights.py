"""The most likely mixing weights of known distributions, for counts of what their mixture gave."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Real

MOST_STEPS = 200
"""Maximum number of Newton steps. Ten are usual."""
GAP = 1e-3
"""The log-likelihood of the weights is at most this much below the maximum."""
ROUNDING = 1e-12
"""The smallest relative gap that float64 can tell from 0."""
HEAVY = 1e4
"""Weight of the equation that the mixing weights sum to 1, in least squares."""


def mixing_weights(
    cells: Float[np.ndarray, "outcomes columns"], counts: Real[np.ndarray, " outcomes"]
) -> Float[np.ndarray, " columns"]:
    """The weights w, at least 0 and of sum 1, for which sum(counts * log(cells @ w)) is largest.

    The function is concave in w. At the maximum the gradient is at most the number of counts in every component, and
    what it exceeds that number by bounds what is missing to the maximum (Lindsay's theorem), which ends the steps.

    Args:
        cells: the probability of each of M outcomes (rows) under each of G distributions (columns).
        counts: how often each outcome was seen; at least one of them more than 0.

    Cost: each step is one least-squares problem of M + 1 equations with G unknowns that are at least 0.

    Source: Lindsay 1983, "The geometry of mixture likelihoods"; the step is the quadratic one of Wang 2007, "On fast
    computation of the non-parametric maximum likelihood estimate of a mixing distribution".
    """
    from scipy.optimize import nnls

    seen = counts > 0
    cells, shares = cells[seen], counts[seen] / counts.sum()
    weights = np.full(cells.shape[1], 1 / cells.shape[1])
    root = np.sqrt(shares)
    for _ in range(MOST_STEPS):
        fitted = cells @ weights
        if ((shares / fitted) @ cells).max() - 1 <= max(GAP / counts.sum(), ROUNDING):
            break
        system = np.vstack([(root / fitted)[:, None] * cells, np.full(len(weights), HEAVY)])
        target, _ = nnls(system, np.append(2 * root, HEAVY), maxiter=20 * len(weights))
        weights = _better(cells, shares, weights, target / target.sum())
    return weights


def log_likelihood(
    cells: Float[np.ndarray, "outcomes columns"],
    counts: Real[np.ndarray, " outcomes"],
    weights: Float[np.ndarray, " columns"],
) -> float:
    """Sum of counts * log(cells @ weights) over the outcomes that were seen; minus infinity if one is impossible."""
    seen = counts > 0
    with np.errstate(divide="ignore"):
        return float(counts[seen] @ np.log(cells[seen] @ weights))


def _better(cells: np.ndarray, shares: np.ndarray, weights: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The first of the points target, half of the way to it, a quarter, ... that is not less likely than `weights`."""
    least, step = log_likelihood(cells, shares, weights), target - weights
    for halvings in range(60):
        found = weights + step / 2**halvings
        if log_likelihood(cells, shares, found) >= least:
            return found
    return weights
