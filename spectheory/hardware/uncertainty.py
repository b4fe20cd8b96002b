"""How uncertain a predicted speedup is by the spreads of the engine's costs, and what a measurement would leave of it.

Each number of `EngineCosts` has a log-normal distribution around its value in the table, independent of the others,
with the `spread` of the table as the standard deviation of its logarithm. To first order the logarithm of a prediction
is linear in the logarithms of the numbers, with gradient g, so its variance is sum(g**2 * spread**2). A measurement
whose logarithm has gradient h and noise s leaves of it

    var - (sum(g * h * spread**2))**2 / (sum(h**2 * spread**2) + s**2).

Source: Bayesian linear regression with one observation; Chaloner and Verdinelli (1995), Bayesian Experimental Design.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from spectheory.hardware.engine_costs import EngineCosts

NOISE = 0.02
"""Standard deviation of the logarithm of a measured rate."""
STEP = 1e-4
"""The step of the finite differences, in the logarithm of a number."""


def gradients(
    logarithms: Callable[[EngineCosts], np.ndarray], costs: EngineCosts, spreads: Mapping[str, float]
) -> np.ndarray:
    """(N, M) derivatives of M logarithms of predictions by the logarithm of each of the N numbers with a spread.

    The differences are taken downwards, because shares cannot be above 1. A number of 0 stays 0.
    """
    at = logarithms(costs)
    names = [name for name, spread in spreads.items() if spread > 0]
    lower = [replace(costs, **{name: getattr(costs, name) * np.exp(-STEP)}) for name in names]
    return np.array([(at - logarithms(less)) / STEP for less in lower]).reshape(len(names), len(at))


def deviations_left(
    predicted: np.ndarray, measured: np.ndarray, spreads: np.ndarray, noise: float = NOISE
) -> tuple[float, np.ndarray]:
    """The standard deviation of the logarithm of a prediction, and what each of several measurements leaves of it.

    Args:
        predicted: (N,) gradient of the logarithm of the prediction.
        measured: (N, M) gradients of the logarithms of M measurements, of which one is made.
        spreads: (N,) standard deviations of the logarithms of the numbers.
        noise: standard deviation of the logarithm of a measurement, above 0.

    Returns:
        The deviation before, and (M,) float64 after each measurement.
    """
    own, seen = predicted * spreads, measured * spreads[:, None]
    before = own @ own
    after = before - (own @ seen) ** 2 / ((seen**2).sum(0) + noise**2)
    return float(np.sqrt(before)), np.sqrt(np.maximum(after, 0.0))
