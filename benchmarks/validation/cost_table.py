"""The table of the costs of engines, fitted to rows, with the sources that determine each number."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np

from benchmarks.validation.fitting import NOISE, Problem, fit
from benchmarks.validation.parameters import (
    ALL,
    COMMON,
    OF_ENGINE,
    PRIOR_SOURCES,
    VARIANTS,
    Key,
    Parameters,
    logarithms_of,
    prior,
    spread,
    width,
)
from benchmarks.validation.rows import Row
from spectheory.core.files import write_whole
from spectheory.hardware.engine_costs import ANY, COLUMNS, FITTED, NAMES, PRIOR, CostRow

SUPPORT = 1.0
"""A source is named for a parameter that it determines at least as well as the prior does."""


def supports(rows: Sequence[Row], parameters: Parameters) -> dict[Key, dict[str, float]]:
    """For each parameter and source: how strongly the rows of the source determine it, at `parameters`.

    The number is the norm of the derivatives of the weighted errors by the logarithm of the parameter, times the width
    of its prior, after the offset of the source took its part. At 1, the source says as much as the prior.
    """
    problem = Problem.of(rows)
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
    out.writerows(
        (*astuple(row)[:3], f"{row.value:.3g}", f"{row.spread:.3g}", row.source)
        for row in _table(rows, fit(rows, None))
    )
    write_whole(file, text.getvalue())


def _table(rows: Sequence[Row], found: Parameters) -> list[CostRow]:
    """The fitted numbers: all of the engine `*`, and of each other engine those that it has of its own."""
    strengths = supports(rows, found)

    def row(engine: str, name: str) -> CostRow:
        value, before = getattr(found.of(engine), name), prior(engine, name)
        of, versions = VARIANTS.get(engine, (engine, ""))
        varies = spread(None if name in COMMON else engine, name)
        return CostRow(of, versions, name, value, varies, _source(strengths, engine, name, before, value))

    others = [row(engine, name) for engine in found.engines if engine != ANY for name in NAMES if name in OF_ENGINE]
    return [*(row(ANY, name) for name in NAMES), *others]


def _source(strengths: dict[Key, dict[str, float]], engine: str, name: str, before: float, value: float) -> str:
    """The source of a number: those that determine it, those that determine it for other engines, or its prior."""
    for key, where in ((None if name in COMMON else engine, ""), (ALL, "all engines, ")):
        by = [source for source, strength in strengths.get((key, name), {}).items() if strength >= SUPPORT]
        if by:
            return f"{FITTED}{'; '.join(by)} ({where}docs/validation.md)"
    moved = f", moved from {before:.3g} by weaker evidence" if abs(value - before) > 0.01 * before else ""
    return f"{PRIOR}{PRIOR_SOURCES.get(name, 'a guess')}{moved}"
