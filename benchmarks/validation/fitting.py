"""Fitting the costs of engines to published measurements, and calibrating them on the runs of one deployment."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from benchmarks.validation.parameters import (
    ALL,
    COMMON,
    FIXED,
    OF_ENGINE,
    PRIOR,
    PRIOR_SOURCES,
    Key,
    Parameters,
    names,
    parameters_of,
    prior,
    width,
)
from benchmarks.validation.predicting import Seconds, predict
from benchmarks.validation.rows import Row
from spectheory.core.files import write_whole
from spectheory.hardware.engine_costs import ANY, COLUMNS, FITTED, NAMES, CostRow, parsed
from spectheory.hardware.engine_costs import PRIOR as OF_PRIOR

NOISE = 0.08
"""Standard deviation of the logarithm of a published rate around the model, in the fit."""
RUN_NOISE = 0.02
"""The same for the runs of a calibration."""
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


def fit(rows: Sequence[Row]) -> Parameters:
    """The parameters that predict `rows` best, by least squares with a soft L1 loss around the priors.

    The rows of a deployment with many rows weigh less, by the fourth root of their number.
    """
    which = _fitted(rows)
    return parameters_of(_optimum(rows, which), which)


def calibrate(rows: Sequence[Row], parameters: Parameters) -> Parameters:
    """`parameters` moved to the few `rows` of one deployment: the same fit, with `parameters` as its priors."""
    which = [key for key in _fitted(rows) if key[0] != ALL]
    return parameters_of(_optimum(rows, which, parameters, RUN_NOISE, 10), which, parameters)


def supports(rows: Sequence[Row]) -> dict[Key, dict[str, float]]:
    """For each parameter and source: how strongly the rows of the source determine it, at the fit to `rows`.

    The number is the norm of the derivatives of the weighted errors by the logarithm of the parameter, times the width
    of its prior. At 1, the source says as much as the prior.
    """
    which = _fitted(rows)
    at, sources = _optimum(rows, which), [row.source for row in rows for _ in _measured(row)]
    found: dict[Key, dict[str, float]] = {}
    for place, name in enumerate(which):
        step = np.zeros(len(at))
        step[place] = 0.01
        change = (_errors(rows, at + step, which) - _errors(rows, at - step, which)) / 0.02 * width(*name)
        squares: Counter[str] = Counter()
        for source, value in zip(sources, change, strict=True):
            squares[source] += value**2
        found[name] = {source: float(np.sqrt(value)) for source, value in squares.items()}
    return found


def fit_to(file: Path, rows: Sequence[Row]) -> None:
    """Write the table of engine costs into `file`, fitted to `rows`. Its rows for some versions of an engine are kept.

    Raises:
        InputError: the file exists and is not a table of engine costs.
    """
    kept = [row for row in (parsed(file.read_text(encoding="utf-8")) if file.exists() else ()) if row.versions]
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(COLUMNS)
    out.writerows(
        (*astuple(row)[:3], f"{row.value:.3g}", f"{row.spread:.3g}", row.source) for row in [*_table(rows), *kept]
    )
    write_whole(file, text.getvalue())


def _table(rows: Sequence[Row]) -> list[CostRow]:
    """The fitted numbers: all of the engine `*`, and of each other engine those that it has of its own."""
    found, strengths = fit(rows), supports(rows)

    def row(engine: str, name: str) -> CostRow:
        value, before = getattr(found.of(engine), name), prior(engine, name)
        spread = width(None if name in COMMON else engine, name) if before > 0 and name not in FIXED else 0.0
        return CostRow(engine, "", name, value, spread, _source(strengths, engine, name, before, value))

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
    return names(sorted({row.engine if row.engine in PRIOR.engines else ANY for row in rows}))


def _optimum(
    rows: Sequence[Row], which: list[Key], base: Parameters = PRIOR, noise: float = NOISE, evaluations: int = 30
) -> np.ndarray:
    wide = np.array([width(*name) for name in which])

    def residuals(x: np.ndarray) -> np.ndarray:
        return np.concatenate([_errors(rows, x, which, base, noise), x / wide])

    return least_squares(residuals, np.zeros(len(which)), loss="soft_l1", max_nfev=evaluations).x


def _errors(
    rows: Sequence[Row], x: np.ndarray, which: list[Key], base: Parameters = PRIOR, noise: float = NOISE
) -> np.ndarray:
    parameters, many = parameters_of(x, which, base), Counter(row.deployment for row in rows)
    return np.array(
        [
            error / (noise * many[row.deployment] ** 0.25)
            for row in rows
            for error in logarithms(row, predict(row, parameters.of_row(row)))
        ]
    )


def _measured(row: Row) -> list[str]:
    gains = ["speedup"] if row.kind in ("chain", "tree") and row.gain is not None else []
    return (["plain"] if row.plain_rate is not None else []) + gains
