"""Fitting the costs of engines to published measurements."""

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
from benchmarks.validation.predicting import Seconds, cycle_of, predict, prefill_tokens, setup_of
from benchmarks.validation.rows import Row
from spectheory.core.files import write_whole
from spectheory.hardware.engine_costs import ANY, COLUMNS, FITTED, NAMES, CostRow
from spectheory.hardware.engine_costs import PRIOR as OF_PRIOR
from spectheory.hardware.model_config import ModelConfig

NOISE = 0.08
"""Standard deviation of the logarithm of a published rate around the model, in the fit."""
SHARED = {"plain": (0.05, 0.10), "speedup": (0.05, 0.08)}
"""Standard deviations of the error that all rows of a source share, and of the one that those of a deployment share."""
STEP = 1e-4
"""By how much the logarithm of a parameter is moved for a derivative."""
DRAFTING = ("spec_step_seconds", "spec_sequence_seconds", "level_seconds", "tree_mask_seconds")
"""Numbers on which only speculative steps depend."""
OF_EXPERTS = ("expert_share", "text_share", "batch_share", "expert_seconds", "moe_layer_seconds")
"""Numbers on which only mixtures of experts depend."""
OF_PACKED = ("eight_bit_share", "four_bit_share", "packed_flops_share", "low_precision_share")
"""Numbers on which only models with packed weights depend."""
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
    problem = _Problem(rows, _fitted(rows))
    first = None if start is None else logarithms_of(start, problem.which)
    return parameters_of(problem.optimum(first), problem.which)


def supports(rows: Sequence[Row], parameters: Parameters) -> dict[Key, dict[str, float]]:
    """For each parameter and source: how strongly the rows of the source determine it, at `parameters`.

    The number is the norm of the derivatives of the weighted errors by the logarithm of the parameter, times the width
    of its prior, after the offset of the source took its part. At 1, the source says as much as the prior.
    """
    problem = _Problem(rows, _fitted(rows))
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

    @cached_property
    def concerned(self) -> list[list[int]]:
        """For each parameter, the places of the rows that it can change."""
        engines = [variant_of(row) for row in self.rows]
        return [
            [
                place
                for place, (of, row) in enumerate(zip(engines, self.rows, strict=True))
                if engine in (None, ALL, of) and concerns(name, row)
            ]
            for engine, name in self.which
        ]

    def optimum(self, start: np.ndarray | None = None) -> np.ndarray:
        """The logarithms of the factors of the parameters."""
        belongs, deviations = self.offsets
        widths = np.concatenate([[width(*name) for name in self.which], deviations])
        many, count = len(self.which), len(self.labels)

        def residuals(x: np.ndarray) -> np.ndarray:
            errors = self.errors(x[:many], range(len(self.rows)))
            return np.concatenate([(errors - belongs @ x[many:]) / NOISE, x / widths])

        def jacobian(x: np.ndarray) -> np.ndarray:
            found = np.zeros((count + len(x), len(x)))
            found[:count, :many] = self.derivatives(x[:many]) / NOISE
            found[:count, many:] = -belongs / NOISE
            found[count:] = np.diag(1 / widths)
            return found

        first = np.zeros(len(widths))
        first[:many] = 0 if start is None else start
        settings: dict[str, Any] = {
            "jac": jacobian,
            "loss": "soft_l1",
            "max_nfev": 30,
            "ftol": 1e-5,
            "xtol": 1e-4,
        }
        return least_squares(residuals, first, **settings).x[:many]

    def errors(self, x: np.ndarray, places: Iterable[int]) -> np.ndarray:
        """The errors of the rows at these places."""
        parameters = parameters_of(x, self.which)
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


def concerns(name: str, row: Row) -> bool:
    """Whether the seconds of a row can depend on a number. False saves the fit a derivative that is 0."""
    if name.startswith("exchange_"):
        return row.placement == "expert parallel"
    if name.startswith("reduce_"):
        return row.placement == "tensor parallel"
    if name == "prefill_share":
        return prefill_tokens(row) > 0
    if name in DRAFTING:
        return cycle_of(row) is not None
    models = [model for model in (setup_of(row).target, setup_of(row).draft) if model is not None]
    if name in OF_EXPERTS:
        return any(model.shape.moe_layers > 0 for model in models)
    if name in OF_PACKED:
        return any(_is_packed(model) for model in models)
    return True


def _is_packed(model: ModelConfig) -> bool:
    return model.arithmetic != "bf16" or min(model.linear_bytes, model.expert_bytes, model.other_bytes) < 2


def _measured(row: Row) -> list[str]:
    gains = ["speedup"] if row.kind in ("chain", "tree") and row.gain is not None else []
    return (["plain"] if row.plain_seconds is not None else []) + gains
