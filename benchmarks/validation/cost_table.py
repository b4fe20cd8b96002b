"""The table of the costs of engines, fitted to rows, with the sources that determine each number."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.validation.fitting import NOISE, Problem, fit
from benchmarks.validation.parameters import FREE, PRIORS, WIDTHS, Parameters
from benchmarks.validation.rows import Row
from spectheory.core.files import write_whole
from spectheory.hardware.engine_costs import COLUMNS, FITTED, PRIOR, CostRow

SUPPORT = 0.5
"""A source moves a parameter that it determines half as well as the prior does: it takes a fifth of the variance."""


def supports(rows: Sequence[Row], parameters: Parameters) -> dict[int, list[str]]:
    """For each place of a parameter: the sources that move it, at `parameters`.

    A source determines a parameter by the norm of the derivatives of its weighted errors by the logarithm of the
    parameter, times the width of the prior, after the offset of the source took its part. At 1, the source says as much
    as the prior.
    """
    problem = Problem(rows)
    slopes = problem.derivatives(parameters.logarithms)
    belongs, deviations = problem.offsets
    sources, found = np.array([rows[place].source for place, _ in problem.labels]), {place: [] for place in FREE}
    for source in dict.fromkeys(sources):
        of = sources == source
        shared = belongs[of] * deviations
        covariance = NOISE**2 * np.eye(of.sum()) + shared @ shared.T
        whole = np.linalg.solve(np.linalg.cholesky(covariance), slopes[of])
        for place, strength in zip(FREE, np.linalg.norm(whole, axis=0) * WIDTHS, strict=True):
            if strength >= SUPPORT:
                found[place].append(str(source))
    return found


def fit_to(file: Path, rows: Sequence[Row]) -> None:
    """Write the table of engine costs into `file`, fitted to `rows`."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(COLUMNS)
    out.writerows((row.engines, row.name, f"{row.value:.3g}", f"{row.spread:.3g}", row.source) for row in table(rows))
    write_whole(file, text.getvalue())


def table(rows: Sequence[Row]) -> list[CostRow]:
    """The fitted numbers, with the sources that move them, or with their priors."""
    found = fit(rows)
    by = supports(rows, found)

    def source(place: int, value: float) -> str:
        if by.get(place):
            return f"{FITTED}{'; '.join(by[place])} (docs/validation.md)"
        before = PRIORS[place].value
        moved = f", moved from {before:.3g} by weaker evidence" if abs(value - before) > 0.01 * before else ""
        return f"{PRIOR}{PRIORS[place].source}{moved}"

    return [
        replace(row, value=value, source=source(place, value))
        for place, (row, value) in enumerate(zip(PRIORS, found.values, strict=True))
    ]
