"""`Linear`: robust linear least squares with offsets of groups, priors and upper limits.

Errors and offsets have a soft L1 loss, 2 (sqrt(1 + z^2) - 1), and parameters a quadratic one. The optimum is found by
iteratively reweighted least squares: the loss is the upper envelope of parabolas with weights 1 / sqrt(1 + z^2), so no
step increases it. Parameters at their limits are held there (an active set).

Source: Huber and Ronchetti, Robust Statistics (2009), section 7.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NOISE = 0.08
"""Standard deviation of the logarithm of a published rate around the model, in the fit."""
STEPS, CLOSE = 100, 1e-5
"""Largest number of reweightings, and the largest change in the last one."""


@dataclass(frozen=True)
class Linear:
    """The errors e(x) = errors + slopes (x - x0) - belongs o, with parameters x and offsets o of groups.

    Attributes:
        slopes: (errors, parameters) derivatives at x0.
        errors: (errors,) errors at x0, without offsets.
        belongs: (errors, offsets) of 0 and 1.
        widths, deviations: standard deviations of parameters and offsets.
        most: the largest values of the parameters.
    """

    slopes: np.ndarray
    errors: np.ndarray
    belongs: np.ndarray
    widths: np.ndarray
    deviations: np.ndarray
    most: np.ndarray

    def optimum(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The parameters and the offsets at the optimum; `start` is x0."""
        many = len(start)
        matrix = np.hstack([self.slopes, -self.belongs]) / NOISE
        constant = (self.errors - self.slopes @ start) / NOISE
        limits = np.concatenate([self.most, np.full(len(self.deviations), np.inf)])
        found = np.concatenate([start, np.zeros(len(self.deviations))])
        for _ in range(STEPS):
            weights = _weights(matrix @ found + constant)
            priors = np.concatenate([self.widths**-2, _weights(found[many:] / self.deviations) * self.deviations**-2])
            weighted = matrix.T * weights
            before, found = found, _limited(weighted @ matrix + np.diag(priors), -weighted @ constant, limits)
            if np.abs(found - before).max() < CLOSE:
                break
        return found[:many], found[many:]

    def loss(self, errors: np.ndarray, x: np.ndarray, offsets: np.ndarray) -> float:
        """The loss of errors at `x` before the offsets, with the priors."""
        soft = _soft((errors - self.belongs @ offsets) / NOISE) + _soft(offsets / self.deviations)
        return soft + float(np.sum((x / self.widths) ** 2))


def _soft(errors: np.ndarray) -> float:
    return float(np.sum(2 * (np.sqrt(1 + errors**2) - 1)))


def _weights(errors: np.ndarray) -> np.ndarray:
    """The weights of squares whose sum touches the soft L1 loss at these errors."""
    return (1 + errors**2) ** -0.5


def _limited(curvature: np.ndarray, slope: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """The minimum of x'Ax / 2 - b'x with x at most `limits`: those above are held at their limits, until none is."""
    held = np.zeros(len(slope), dtype=bool)
    while True:
        free, found = ~held, np.where(held, limits, 0.0)
        known = slope[free] - curvature[np.ix_(free, held)] @ found[held]
        found[free] = np.linalg.solve(curvature[np.ix_(free, free)], known)
        above = free & (found > limits + 1e-12)
        if not above.any():
            return found
        held |= above
