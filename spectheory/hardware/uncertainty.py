"""How uncertain a predicted speedup is by the spreads of the engine's costs, and what a measurement would leave of it.

Each number of `EngineCosts` has a log-normal distribution around its value in the table, independent of the others,
with the `spread` of the table as the standard deviation of its logarithm. To first order the logarithm of a prediction
is linear in the logarithms of the numbers, with gradient g, so its variance is sum(g**2 * spread**2). A measurement
whose logarithm has gradient h and noise s leaves of it

    var - (sum(g * h * spread**2))**2 / (sum(h**2 * spread**2) + s**2).

After a calibration, spread**2 is replaced by the covariance matrix that its runs leave. They determine sums of numbers
better than single numbers, so the numbers are not independent any more.

Source: Bayesian linear regression with one observation; Chaloner and Verdinelli (1995), Bayesian Experimental Design.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from spectheory.core.errors import InputError
from spectheory.hardware.engine_costs import NAMES, EngineCosts, spreads

NOISE = 0.02
"""Standard deviation of the logarithm of a measured rate."""
STEP = 1e-4
"""The step of the finite differences, in the logarithm of a number."""
WIDEST, STEEPEST = 100.0, 1e12
"""Spreads and derivatives must be below these numbers."""


@dataclass(frozen=True)
class CostUncertainty:
    """How uncertain the numbers of `EngineCosts` are, from the table or after a calibration.

    Attributes:
        spreads: for each number the standard deviation of its logarithm without the runs; 0 if it may not move.
        runs: for each run of a calibration, the derivatives of the logarithm of its seconds by the logarithms of the
            numbers with a spread, over the standard deviation of its noise. Empty without a calibration.

    Raises:
        InputError: a spread is not a number of at least 0, or a run has derivatives by other numbers.
    """

    spreads: dict[str, float]
    runs: tuple[dict[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not set(self.spreads) <= set(NAMES) or not all(0 <= one < WIDEST for one in self.spreads.values()):
            raise InputError(f"spreads must be numbers from 0 to {WIDEST:g} by the names of EngineCosts")
        if any(list(run) != self.names or not all(abs(one) < STEEPEST for one in run.values()) for run in self.runs):
            raise InputError("runs must have a finite derivative by each number with a spread: calibrate again")

    @classmethod
    def of_engine(cls, engine: str) -> Self:
        """The uncertainty of the costs of an engine in the shipped table."""
        return cls(spreads(engine))

    @classmethod
    def after_runs(
        cls,
        logarithms: Callable[[EngineCosts], np.ndarray],
        costs: EngineCosts,
        spreads: dict[str, float],
        noise: float,
    ) -> Self:
        """The uncertainty that the runs of a calibration leave.

        Args:
            logarithms: the logarithms of the seconds of the runs by costs.
            costs: the calibrated costs.
            spreads: for each number the standard deviation of its logarithm before the calibration.
            noise: the standard deviation of the logarithm of the seconds of a run.
        """
        names = [name for name, spread in spreads.items() if spread > 0]
        found = gradients(logarithms, costs, spreads) / noise
        return cls(dict(spreads), tuple(dict(zip(names, map(float, column), strict=True)) for column in found.T))

    @property
    def names(self) -> list[str]:
        """The numbers with a spread."""
        return [name for name, spread in self.spreads.items() if spread > 0]

    @cached_property
    def covariance(self) -> np.ndarray:
        """(N, N) covariance matrix of the logarithms of the numbers with a spread."""
        wide = np.array([self.spreads[name] for name in self.names])
        known = np.array([[run[name] for name in self.names] for run in self.runs]).reshape(len(self.runs), len(wide))
        known = known * wide
        left = np.eye(len(wide)) - known.T @ np.linalg.solve(np.eye(len(known)) + known @ known.T, known)
        return wide[:, None] * left * wide


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
    predicted: np.ndarray, measured: np.ndarray, covariance: np.ndarray, noise: float = NOISE
) -> tuple[float, np.ndarray]:
    """The standard deviation of the logarithm of a prediction, and what each of several measurements leaves of it.

    Args:
        predicted: (N,) gradient of the logarithm of the prediction.
        measured: (N, M) gradients of the logarithms of M measurements, of which one is made.
        covariance: (N, N) covariance matrix of the logarithms of the numbers.
        noise: standard deviation of the logarithm of a measurement, above 0.

    Returns:
        The deviation before, and (M,) float64 after each measurement.
    """
    shared = predicted @ covariance
    before = max(shared @ predicted, 0.0)
    seen = np.einsum("nm,nk,km->m", measured, covariance, measured)
    after = before - (shared @ measured) ** 2 / (seen + noise**2)
    return float(np.sqrt(before)), np.sqrt(np.maximum(after, 0.0))
