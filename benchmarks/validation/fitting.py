"""Fitting the costs of engines to published measurements, and calibrating them on the runs of one deployment."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.validation.parameters import (
    ALL,
    COMMON,
    FIXED,
    OF_ENGINE,
    PRIOR,
    PRIOR_SOURCES,
    VARIANTS,
    Key,
    Parameters,
    logarithms_of,
    names,
    parameters_of,
    prior,
    variant_of,
    width,
)
from benchmarks.validation.predicting import Seconds, predict
from benchmarks.validation.rows import Row
from spectheory.core.files import write_whole
from spectheory.hardware.engine_costs import ANY, COLUMNS, FITTED, NAMES, CostRow
from spectheory.hardware.engine_costs import PRIOR as OF_PRIOR

NOISE = 0.08
"""Standard deviation of the logarithm of a published rate around the model, in the fit."""
RUN_NOISE = 0.04
"""The same for the runs of a calibration."""
SHARED = {"plain": (0.05, 0.10), "speedup": (0.05, 0.08)}
"""Standard deviations of the error that all rows of a source share, and of the one that those of a deployment share."""
STEP = 1e-4
"""By how much the logarithm of a parameter is moved for a derivative."""
SUPPORT = 1.0
"""A source is named for a parameter that it determines at least as well as the prior does."""


def logarithms(row: Row, seconds: Seconds) -> list[float]:
    """log(predicted rate / measured rate) of what `row` measured: the plain rate and the speedup."""
    found = []
    if (measured := row.plain_seconds) is not None:
        found.append(float(np.log(measured / seconds.plain)))
    if (gain := seconds.gain(row.tau)) is not None and row.gain is not None:
        found.append(float(np.log(gain / row.gain)))
    return found


def fit(rows: Sequence[Row], start: Parameters | None = None) -> Parameters:
    """The parameters that predict `rows` best, by least squares with a soft L1 loss around the priors.

    `start` are parameters near the optimum, such as those of a fit to nearly the same rows: a fit from there is faster.
    """
    problem = _Problem(rows, _fitted(rows), PRIOR, NOISE, shared=True)
    first = None if start is None else logarithms_of(start, problem.which)
    return parameters_of(problem.optimum(first), problem.which)


def calibrate(rows: Sequence[Row], parameters: Parameters) -> Parameters:
    """`parameters` moved to the few `rows` of one deployment: the same fit, with `parameters` as its priors."""
    which = [key for key in _fitted(rows) if key[0] != ALL]
    problem = _Problem(rows, which, parameters, RUN_NOISE, shared=False)
    return parameters_of(problem.optimum(evaluations=10), which, parameters)


def supports(rows: Sequence[Row], parameters: Parameters) -> dict[Key, dict[str, float]]:
    """For each parameter and source: how strongly the rows of the source determine it, at `parameters`.

    The number is the norm of the derivatives of the weighted errors by the logarithm of the parameter, times the width
    of its prior, after the offset of the source took its part. At 1, the source says as much as the prior.
    """
    problem = _Problem(rows, _fitted(rows), PRIOR, NOISE, shared=True)
    slopes = problem.derivatives(logarithms_of(parameters, problem.which))
    belongs, deviations = problem.offsets
    sources, whole = np.array([rows[place].source for place, _ in problem.labels]), {}
    for source in dict.fromkeys(sources):
        of = sources == source
        shared = belongs[of] * deviations
        covariance = NOISE**2 * np.eye(of.sum()) + shared @ shared.T
        whole[source] = np.linalg.solve(np.linalg.cholesky(covariance), slopes[of])
    return {
        name: {str(source): float(np.linalg.norm(found[:, place]) * width(*name)) for source, found in whole.items()}
        for place, name in enumerate(problem.which)
    }


def fit_to(file: Path, rows: Sequence[Row]) -> None:
    """Write the table of engine costs into `file`, fitted to `rows`."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(COLUMNS)
    out.writerows((*astuple(row)[:3], f"{row.value:.3g}", f"{row.spread:.3g}", row.source) for row in _table(rows))
    write_whole(file, text.getvalue())


def _table(rows: Sequence[Row]) -> list[CostRow]:
    """The fitted numbers: all of the engine `*`, and of each other engine those that it has of its own."""
    found = fit(rows)
    strengths = supports(rows, found)

    def row(engine: str, name: str) -> CostRow:
        value, before = getattr(found.of(engine), name), prior(engine, name)
        spread = width(None if name in COMMON else engine, name) if before > 0 and name not in FIXED else 0.0
        of, versions = VARIANTS.get(engine, (engine, ""))
        return CostRow(of, versions, name, value, spread, _source(strengths, engine, name, before, value))

    others = [row(engine, name) for engine in found.engines if engine != ANY for name in NAMES if name in OF_ENGINE]
    return [*(row(ANY, name) for name in NAMES), *others]


def _source(strengths: dict[Key, dict[str, float]], engine: str, name: str, before: float, value: float) -> str:
    """The source of a number: those that determine it, those that determine it for other engines, or its prior."""
    for key, where in ((None if name in COMMON else engine, ""), (ALL, "all engines, ")):
        by = [source for source, strength in strengths.get((key, name), {}).items() if strength >= SUPPORT]
        if by:
            return f"{FITTED}{'; '.join(by)} ({where}docs/validation.md)"
    moved = f", moved from {before:.3g} by weaker evidence" if abs(value - before) > 0.01 * before else ""
    return f"{OF_PRIOR}{PRIOR_SOURCES.get(name, 'a guess')}{moved}"


def _fitted(rows: Sequence[Row]) -> list[Key]:
    return names(sorted({variant_of(row) for row in rows}))


@dataclass(frozen=True)
class _Problem:
    """Least squares of the weighted errors of rows around the priors, in the logarithms of the parameters.

    Besides the parameters, an offset is fitted for each source and for each deployment, with `SHARED` as its prior: all
    rows of one source may be wrong together (an unstated version, clocks, the way of counting). So many rows of one
    source determine no parameter better than the source deserves, while the differences between them count in full.
    """

    rows: Sequence[Row]
    which: list[Key]
    base: Parameters
    noise: float
    shared: bool

    @cached_property
    def labels(self) -> list[tuple[int, str]]:
        """For each error: the place of its row, and what was measured."""
        return [(place, what) for place, row in enumerate(self.rows) for what in _measured(row)]

    @cached_property
    def offsets(self) -> tuple[np.ndarray, np.ndarray]:
        """The offsets of each error, (errors, offsets) of 0 and 1, and the standard deviation of each offset."""
        if not self.shared:
            return np.zeros((len(self.labels), 0)), np.zeros(0)
        groups = [((self.rows[place].source, what), (self.rows[place].deployment, what)) for place, what in self.labels]
        known = list(dict.fromkeys(name for both in groups for name in both))
        columns = {name: column for column, name in enumerate(known)}
        belongs = np.zeros((len(groups), len(known)))
        for place, both in enumerate(groups):
            belongs[place, [columns[name] for name in both]] = 1
        return belongs, np.array([SHARED[what][isinstance(name, tuple)] for name, what in known])

    @cached_property
    def concerned(self) -> list[list[int]]:
        """For each parameter, the places of the rows that it can change."""
        engines = [variant_of(row) for row in self.rows]
        return [
            [place for place, of in enumerate(engines) if engine in (None, ALL, of)] for engine, _name in self.which
        ]

    def optimum(self, start: np.ndarray | None = None, evaluations: int = 30) -> np.ndarray:
        """The logarithms of the factors of the parameters."""
        belongs, deviations = self.offsets
        widths = np.concatenate([[width(*name) for name in self.which], deviations])
        many, count = len(self.which), len(self.labels)

        def residuals(x: np.ndarray) -> np.ndarray:
            errors = self.errors(x[:many], range(len(self.rows)))
            return np.concatenate([(errors - belongs @ x[many:]) / self.noise, x / widths])

        def jacobian(x: np.ndarray) -> np.ndarray:
            found = np.zeros((count + len(x), len(x)))
            found[:count, :many] = self.derivatives(x[:many]) / self.noise
            found[:count, many:] = -belongs / self.noise
            found[count:] = np.diag(1 / widths)
            return found

        first = np.zeros(len(widths))
        first[:many] = 0 if start is None else start
        settings: dict[str, Any] = {
            "jac": jacobian,
            "loss": "soft_l1",
            "max_nfev": evaluations,
            "ftol": 1e-5,
            "xtol": 1e-4,
        }
        return least_squares(residuals, first, **settings).x[:many]

    def errors(self, x: np.ndarray, places: Iterable[int]) -> np.ndarray:
        """The errors of the rows at these places."""
        parameters = parameters_of(x, self.which, self.base)
        rows = [self.rows[place] for place in places]
        return np.array([error for row in rows for error in logarithms(row, predict(row, parameters.of_row(row)))])

    def derivatives(self, x: np.ndarray) -> np.ndarray:
        """The derivatives of all errors by each parameter, (errors, parameters)."""
        found, now = np.zeros((len(self.labels), len(x))), self.errors(x, range(len(self.rows)))
        owners = np.array([place for place, _ in self.labels])
        for column, places in enumerate(self.concerned):
            moved = x.copy()
            moved[column] += STEP
            of = np.isin(owners, places)
            found[of, column] = (self.errors(moved, places) - now[of]) / STEP
        return found


def _measured(row: Row) -> list[str]:
    gains = ["speedup"] if row.kind in ("chain", "tree") and row.gain is not None else []
    return (["plain"] if row.plain_seconds is not None else []) + gains
