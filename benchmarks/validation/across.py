"""The check across files: the costs fitted to one file alone, judged by the rows of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from benchmarks.validation.parameters import Parameters, variant_of
from benchmarks.validation.predicting import curves_from, predict, shipped
from benchmarks.validation.protocol import Fit, Prediction, predicted
from benchmarks.validation.rows import Row, read


@dataclass(frozen=True)
class Across:
    """The rows of one file, predicted with costs that were fitted to the rows of another alone, and its curves.

    Attributes:
        fitted_to, judged_on: the names of the two files.
        found: the predictions.
        engines: the engines, with the versions that have costs of their own, of the rows of the fit with a speedup.
    """

    fitted_to: str
    judged_on: str
    found: list[Prediction]
    engines: frozenset[str]


def across(files: Sequence[Path], fit: Fit, start: Parameters | None = None) -> list[Across]:
    """The predictions of each file by `fit` on each other one, without rows of a source or an address of the file.

    `start` is where the fits start. Where reading hides the operations of FP4, their share has no derivative, so a fit
    that starts at the priors can stay there.

    Raises:
        InputError: a file cannot be read, or lacks columns.
    """
    known = [(file.name, [one.row for one in predicted(read(file)[0], shipped)[0]]) for file in files]
    return [_across(*fitted, *judged, fit, start) for fitted, judged in permutations(known, 2)]


def _across(
    fitted_to: str, rows: Sequence[Row], judged_on: str, judged: Sequence[Row], fit: Fit, start: Parameters | None
) -> Across:
    sources, urls = {row.source for row in judged}, {row.url for row in judged if row.url}
    used = [row for row in rows if row.source not in sources and row.url not in urls]
    parameters, known = fit(used, start), {row.source for row in used}
    found, _ = predicted(judged, lambda row: predict(row, parameters.of_row(row), curves_from(row.engine, known)))
    engines = frozenset(variant_of(row) for row in used if row.gain is not None)
    return Across(fitted_to, judged_on, found, engines)
