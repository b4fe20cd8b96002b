"""Fits end at one minimum; and the robust linear fit agrees with scipy's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

from benchmarks.validation.fitting import NOISE, STEP, Linear, Problem, fit
from benchmarks.validation.parameters import FREE, HIGHEST, PRIORS, WIDTHS, parameters_of
from benchmarks.validation.predicting import predict
from benchmarks.validation.rows import Row
from tests.benchmarks.validation.test_validation import row


def problem(most: float = np.inf) -> Linear:
    """Eight errors of two parameters in two groups; the last error is gross."""
    slopes = np.array([[1, 0], [1, 1], [1, 2], [1, 3], [2, 0], [2, 1], [0, 2], [1, 1]], dtype=float)
    errors = -slopes @ np.array([0.3, -0.1]) + 0.02 * np.array([1, -1, 2, 0, -2, 1, 0, 50])
    belongs = np.repeat(np.eye(2), 4, axis=0)
    return Linear(slopes, errors, belongs, np.array([0.5, 0.4]), np.array([0.05, 0.1]), np.full(2, most))


def residuals(one: Linear, z: np.ndarray) -> np.ndarray:
    x, offsets = z[:2], z[2:]
    errors = one.errors + one.slopes @ x - one.belongs @ offsets
    return np.concatenate([errors / NOISE, offsets / one.deviations, x / one.widths])


def test_the_optimum_is_that_of_scipy() -> None:
    """Soft L1 of errors and offsets, squares of parameters: the same minimum, and no point near it has a lower loss."""
    one = problem()

    def loss(squares: np.ndarray) -> np.ndarray:
        soft, found = slice(0, 10), np.array([squares, np.ones_like(squares), np.zeros_like(squares)])
        above = 1 + squares[soft]
        found[:, soft] = 2 * (np.sqrt(above) - 1), above**-0.5, -0.5 * above**-1.5
        return found

    settings: dict[str, Any] = {"loss": loss, "xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
    expected = least_squares(lambda z: residuals(one, z), np.zeros(4), **settings)
    x, offsets = one.optimum(np.zeros(2))
    np.testing.assert_allclose(np.concatenate([x, offsets]), expected.x, atol=1e-4)
    at = one.loss(one.errors + one.slopes @ x, x, offsets)
    for step in 0.01 * np.vstack([np.eye(2), -np.eye(2)]):
        assert one.loss(one.errors + one.slopes @ (x + step), x + step, offsets) > at


def test_parameters_stop_at_their_limits() -> None:
    """The first parameter wants 0.3: it is held at 0.1, and the second one takes the best value for that."""
    one = problem(most=0.1)
    x, offsets = one.optimum(np.zeros(2))
    assert x[0] == 0.1
    assert x[1] <= 0.1
    at = one.loss(one.errors + one.slopes @ x, x, offsets)
    for step in (np.array([-0.01, 0.0]), np.array([0.0, 0.01]), np.array([0.0, -0.01])):
        assert one.loss(one.errors + one.slopes @ (x + step), x + step, offsets) > at


def rows() -> list[Row]:
    """Plain rows of vLLM whose rates are those of shares at their largest, and of a fifth of the time of a sequence."""
    logarithms = np.where(np.isfinite(HIGHEST), HIGHEST, 0.0)
    logarithms[[PRIORS[place].name for place in FREE].index("sequence_seconds")] = np.log(0.2)
    truth = parameters_of(logarithms)
    plain = [
        row(shape="none", draft="", measured_spec_tok_s="", batch=batch, source=batch) for batch in ("1", "8", "64")
    ]
    return [replace(one, plain_rate=one.batch / predict(one, truth.of(one.engine_version)).plain) for one in plain]


def test_a_fit_ends_at_one_minimum_and_no_share_is_above_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the priors, and from parameters far from them; the rates ask for shares of 1 and more."""
    monkeypatch.setattr("benchmarks.validation.fitting.CLOSE", 1e-6)
    known = [replace(one, plain_rate=1.2 * (one.plain_rate or 0)) for one in rows()]
    far = parameters_of(np.full(len(FREE), -0.3))
    one, other = fit(known), fit(known, far)
    for name, value in vars(one.of("vllm")).items():
        assert getattr(other.of("vllm"), name) == pytest.approx(value, rel=0.01), name
        assert value <= 1 or not name.endswith("_share")


def test_derivatives_are_those_of_all_rows_though_only_rows_of_the_engine_are_computed() -> None:
    problem = Problem([row(), row(engine="sglang", batch="8"), row(engine="llama.cpp", note="version unknown")])
    x = np.zeros(len(FREE))
    found, now = problem.derivatives(x), problem.errors(x)
    for column, step in enumerate(STEP * np.eye(len(x))):
        np.testing.assert_array_equal(found[:, column], (problem.errors(x + step) - now) / STEP)
    assert found.any()


def test_the_variance_that_rows_leave_is_that_of_the_linear_problem() -> None:
    """One error and its two offsets: by the formula of Sherman and Morrison."""
    problem = Problem([row(shape="none", draft="", measured_spec_tok_s="")])
    slopes = problem.derivatives(np.zeros(len(FREE)))[0] * WIDTHS
    noise = NOISE**2 + sum(problem.offsets[1] ** 2)
    expected = 1 - slopes**2 / (noise + slopes @ slopes)
    np.testing.assert_allclose(problem.remaining(np.zeros(len(FREE))), expected)
