"""Fitting the costs of engines to published measurements, robustly, by Gauss-Newton steps.

`Linear` is robust linear least squares with offsets of groups, priors and upper limits. Errors and offsets have a soft
L1 loss, 2 (sqrt(1 + z^2) - 1), and parameters a quadratic one. Its optimum is found by iteratively reweighted least
squares: the loss is the upper envelope of parabolas with weights 1 / sqrt(1 + z^2), so no step increases it. Parameters
at their limits are held there (an active set).

Source: Huber and Ronchetti, Robust Statistics (2009), section 7.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from benchmarks.validation.parameters import FREE, HIGHEST, WIDTHS, Parameters, parameters_of, places
from benchmarks.validation.predicting import Seconds, predict
from benchmarks.validation.rows import Row

NOISE = 0.08
"""Standard deviation of the logarithm of a published rate around the model, in the fit."""
REWEIGHTINGS, ALIKE = 100, 1e-5
"""Largest number of reweightings of a linear fit, and the largest change in the last one."""
SHARED = {"plain": (0.05, 0.10), "speedup": (0.05, 0.08)}
"""Standard deviations of the error that all rows of a source share, and of the one that those of a deployment share."""
STEP = -1e-4
"""By how much the logarithm of a parameter is moved for a derivative: downwards, as shares cannot be above 1."""
BELOW = 2e-4
"""The logarithms of shares stay at least this far below their largest values, so that derivatives exist."""
STEPS, CLOSE, SHARES = 30, 1e-4, (1.0, 0.5, 0.25, 0.125)
"""Largest number of steps of a fit, the least relative fall of the loss in one, and the shares of a step to try."""


def logarithms(row: Row, seconds: Seconds) -> list[float]:
    """log(predicted rate / measured rate) of what `row` measured: the plain rate and the speedup."""
    found = []
    if (measured := row.plain_seconds) is not None:
        found.append(float(np.log(measured / seconds.plain)))
    if (gain := seconds.gain(row.tau)) is not None and row.gain is not None:
        found.append(float(np.log(gain / row.gain)))
    return found


def fit(rows: Sequence[Row], start: Parameters | None = None) -> Parameters:
    """The parameters that predict `rows` best, by least squares around the priors.

    Errors of rows have a soft L1 loss and parameters a quadratic one, so an error that only a parameter far from its
    prior would explain remains an error. A fit from `start`, parameters near the optimum, is faster.
    """
    return parameters_of(Problem(rows).optimum(None if start is None else start.logarithms))


@lru_cache(maxsize=5000)
def slopes(row: Row, parameters: Parameters) -> np.ndarray:
    """The derivatives of the errors of a row by the logarithm of each parameter, (errors, parameters)."""
    now = logarithms(row, predict(row, parameters.of(row.engine_version)))
    found = np.zeros((len(now), len(FREE)))
    for column in [column for column, place in enumerate(FREE) if place in places(row.engine_version).values()]:
        costs = _moved(parameters, column).of(row.engine_version)
        found[:, column] = (np.array(logarithms(row, predict(row, costs))) - now) / STEP
    return found


@lru_cache(maxsize=100)
def _moved(parameters: Parameters, column: int) -> Parameters:
    return parameters_of(parameters.logarithms + STEP * (np.arange(len(FREE)) == column))


@dataclass(frozen=True)
class Problem:
    """Least squares of the weighted errors of rows around the priors, in the logarithms of the parameters.

    Besides the parameters, an offset is fitted for each source and for each deployment, with `SHARED` as its prior: all
    rows of one source may be wrong together (an unstated version, clocks, the way of counting). So many rows of one
    source determine no parameter better than the source deserves, while the differences between them count in full.
    """

    rows: Sequence[Row]

    @cached_property
    def labels(self) -> list[tuple[int, str]]:
        """For each error: the place of its row, and what was measured."""
        return [(place, what) for place, row in enumerate(self.rows) for what in _measured(row)]

    @cached_property
    def offsets(self) -> tuple[np.ndarray, np.ndarray]:
        """The offsets of each error, (errors, offsets) of 0 and 1, and the standard deviation of each offset."""
        groups = [((self.rows[place].source, what), (self.rows[place].deployment, what)) for place, what in self.labels]
        known = list(dict.fromkeys(name for both in groups for name in both))
        columns = {name: column for column, name in enumerate(known)}
        belongs = np.zeros((len(groups), len(known)))
        for place, both in enumerate(groups):
            belongs[place, [columns[name] for name in both]] = 1
        return belongs, np.array([SHARED[what][isinstance(name, tuple)] for name, what in known])

    def optimum(self, start: np.ndarray | None = None) -> np.ndarray:
        """The logarithms of the factors of the parameters, by Gauss-Newton steps to the optima of linear problems.

        A step is halved until the loss falls: where a forward takes the larger of two times, the loss has kinks.
        """
        belongs, deviations = self.offsets
        most = HIGHEST - BELOW
        x = np.minimum(np.zeros(len(FREE)) if start is None else start, most)
        linear = Linear(self.derivatives(x), self.errors(x), belongs, WIDTHS, deviations, most)
        offsets, found = np.zeros(len(deviations)), np.inf
        for _ in range(STEPS):
            aim, aimed = linear.optimum(x)
            for share in SHARES:
                near, offset = x + share * (aim - x), offsets + share * (aimed - offsets)
                errors = self.errors(near)
                loss = linear.loss(errors, near, offset)
                if loss < (1 - CLOSE) * found:
                    break
            else:
                break
            x, offsets, found = near, offset, loss
            linear = replace(linear, errors=errors, slopes=self.derivatives(x))
        return x

    def errors(self, x: np.ndarray) -> np.ndarray:
        """The errors of all rows."""
        of = parameters_of(x).of
        return np.array([one for row in self.rows for one in logarithms(row, predict(row, of(row.engine_version)))])

    def derivatives(self, x: np.ndarray) -> np.ndarray:
        """The derivatives of all errors by each parameter, (errors, parameters)."""
        at = parameters_of(x)
        return np.concatenate([slopes(row, at) for row in self.rows])

    def remaining(self, x: np.ndarray) -> np.ndarray:
        """For each parameter, the share of the variance of its prior that the rows leave."""
        belongs, deviations = self.offsets
        matrix = np.hstack([self.derivatives(x), -belongs]) / NOISE
        known = matrix.T @ matrix + np.diag(np.concatenate([WIDTHS, deviations]) ** -2.0)
        return np.diag(np.linalg.inv(known))[: len(FREE)] / WIDTHS**2


def _measured(row: Row) -> list[str]:
    gains = ["speedup"] if row.kind in ("chain", "tree") and row.gain is not None else []
    return (["plain"] if row.plain_seconds is not None else []) + gains


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
        for _ in range(REWEIGHTINGS):
            weights = _weights(matrix @ found + constant)
            priors = np.concatenate([self.widths**-2, _weights(found[many:] / self.deviations) * self.deviations**-2])
            weighted = matrix.T * weights
            before, found = found, _limited(weighted @ matrix + np.diag(priors), -weighted @ constant, limits)
            if np.abs(found - before).max() < ALIKE:
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
