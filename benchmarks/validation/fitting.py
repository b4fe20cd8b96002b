"""Fitting the costs of engines to published measurements."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.validation.parameters import (
    ALL,
    PRIOR,
    Key,
    Parameters,
    highest,
    logarithms_of,
    names,
    parameters_of,
    variant_of,
    width,
)
from benchmarks.validation.predicting import Curves, Seconds, curves_from, cycle_of, predict, prefill_tokens, setup_of
from benchmarks.validation.rows import Row
from spectheory.hardware.model_config import ModelConfig

NOISE = 0.08
"""Standard deviation of the logarithm of a published rate around the model, in the fit."""
SHARED = {"plain": (0.05, 0.10), "speedup": (0.05, 0.08)}
"""Standard deviations of the error that all rows of a source share, and of the one that those of a deployment share."""
STEP = -1e-4
"""By how much the logarithm of a parameter is moved for a derivative: downwards, as shares cannot be above 1."""
BELOW = 0.01
"""The logarithms of shares start at least this far below their largest values."""
STEPS, CLOSE = 100, 1e-6
"""Largest number of steps of a fit, and its tolerance: the relative change of the sum of squares in the last step."""
DRAFTING = (
    "spec_step_seconds",
    "spec_sequence_seconds",
    "rollback_seconds",
    "rollback_sequence_seconds",
    "level_seconds",
    "tree_mask_seconds",
)
"""Numbers on which only speculative steps depend."""
OF_EXPERTS = ("expert_share", "text_share", "batch_share", "expert_seconds", "moe_layer_seconds")
"""Numbers on which only mixtures of experts depend."""
OF_PACKED = (
    "eight_bit_share",
    "four_bit_share",
    "packed_flops_share",
    "packed_large_share",
    "low_precision_share",
)
"""Numbers on which only models with packed weights depend."""


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
    prior would explain remains an error.

    `start` are parameters near the optimum, such as those of a fit to nearly the same rows: a fit from there is faster.
    """
    return Problem.of(rows).fit(start)


@dataclass(frozen=True)
class Problem:
    """Least squares of the weighted errors of rows around the priors, in the logarithms of the parameters.

    Besides the parameters, an offset is fitted for each source and for each deployment, with `SHARED` as its prior: all
    rows of one source may be wrong together (an unstated version, clocks, the way of counting). So many rows of one
    source determine no parameter better than the source deserves, while the differences between them count in full.
    """

    rows: Sequence[Row]
    which: list[Key]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Problem:
        """The problem of these rows, with the parameters of all engines among them."""
        return cls(rows, names(sorted({variant_of(row) for row in rows})))

    def fit(self, start: Parameters | None = None) -> Parameters:
        """The parameters at the optimum; `start` are parameters near it."""
        first = None if start is None else logarithms_of(start, self.which)
        return parameters_of(self.optimum(first), self.which)

    def identity(self, start: Parameters | None = None) -> str:
        """A text that differs between problems, and between versions of the time model: the hash of all inputs.

        The errors at the priors and at `start` stand for the model, which they change with.
        """
        known = PRIOR if start is None else start
        engines = {engine: astuple(costs) for engine, costs in known.engines.items()}
        widths = [width(*name) for name in self.which]
        inputs = repr(
            (
                self.rows,
                self.which,
                widths,
                engines,
                NOISE,
                SHARED,
                STEP,
                BELOW,
                STEPS,
                CLOSE,
                inspect.getsource(Problem),
            )
        )
        errors = [self.errors(logarithms_of(each, self.which), range(len(self.rows))) for each in (PRIOR, known)]
        return hashlib.sha256(inputs.encode() + np.concatenate(errors).tobytes()).hexdigest()

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
    def curves(self) -> list[Curves]:
        """For each row, the curves of kernels for its engine that are from the sources of the rows."""
        sources = {row.source for row in self.rows}
        return [curves_from(row.engine, sources) for row in self.rows]

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

        def loss(squares: np.ndarray) -> np.ndarray:
            """Soft L1 of errors and offsets with its derivatives; the squares of parameters as they are."""
            found = np.array([squares, np.ones_like(squares), np.zeros_like(squares)])
            soft = np.r_[:count, count + many : squares.size]
            above = 1 + squares[soft]
            found[:, soft] = 2 * (np.sqrt(above) - 1), above**-0.5, -0.5 * above**-1.5
            return found

        most = np.concatenate([highest(self.which), np.full(len(deviations), np.inf)])
        x = np.zeros(many) if start is None else start
        first = np.concatenate([x, self._offsets_at(x)])
        settings: dict[str, Any] = {
            "jac": jacobian,
            "bounds": (np.full(len(widths), -np.inf), most),
            "loss": loss,
            "max_nfev": STEPS,
            "ftol": CLOSE,
            "xtol": CLOSE,
        }
        return least_squares(residuals, np.minimum(first, most - BELOW), **settings).x[:many]

    def _offsets_at(self, x: np.ndarray) -> np.ndarray:
        """The most probable offsets for these parameters, without the tails of the loss."""
        belongs, deviations = self.offsets
        weights = belongs.T @ belongs + np.diag((NOISE / deviations) ** 2)
        return np.linalg.solve(weights, belongs.T @ self.errors(x, range(len(self.rows))))

    def errors(self, x: np.ndarray, places: Iterable[int]) -> np.ndarray:
        """The errors of the rows at these places."""
        parameters = parameters_of(x, self.which)
        known = [(self.rows[place], self.curves[place]) for place in places]
        return np.array(
            [error for row, of in known for error in logarithms(row, predict(row, parameters.of_row(row), of))]
        )

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
    if name.startswith("rollback_") and not setup_of(row).target.shape.state_bytes:
        return False
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
