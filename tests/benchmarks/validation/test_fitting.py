"""Fits end at one minimum; the robust linear fit agrees with scipy's; no row follows the curve of its own source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

from benchmarks.validation.fitting import NOISE, STEP, Linear, Problem, fit
from benchmarks.validation.parameters import FREE, HIGHEST, PRIOR, PRIORS, WIDTHS, parameters_of
from benchmarks.validation.predicting import curves_from, curves_of_others, predict, setup_of, shipped
from benchmarks.validation.rows import Row, sources_at
from spectheory import Latency
from spectheory.hardware.engine_costs import EngineCosts
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


SOURCE = "llama.cpp PR 15802"
"""The source of the curve of Q4_0 on an RTX 3090."""
COSTS = EngineCosts.of("llama.cpp")
URL = "https://github.com/ggml-org/llama.cpp/pull/15802"


def forward(tokens: int, **cells: str) -> Row:
    place = {"engine": "llama.cpp", "gpu": "rtx3090", "target": "llama-3.1-8b q4_0", "draft": "", "context": "256"}
    return row(**place, shape=f"forward of {tokens} tokens", acceptance_tau="", measured_spec_tok_s="", **cells)


def test_a_row_follows_the_curves_of_other_sources_and_is_then_what_the_library_computes() -> None:
    other = forward(8)
    place = {"gpu": "rtx3090", "target": "llama-3.1-8b-q4_0", "engine": "llama.cpp"}
    latency = Latency.roofline(**place, draft=None, context=256)
    assert shipped(other).plain == pytest.approx(latency.target(8, 256), rel=1e-12)
    assert SOURCE in {curve.source for curve in setup_of(other).curves}
    assert shipped(other) != predict(other, COSTS, curves=())


@pytest.mark.parametrize("cells", [{"source": SOURCE}, {"source": "a copy of it", "url": URL}])
def test_a_row_never_follows_the_curve_of_its_own_source_or_address(cells: dict[str, str]) -> None:
    own = forward(8, **cells)
    assert sources_at(URL) == {SOURCE}
    assert SOURCE not in {curve.source for curve in curves_of_others(own)}
    assert shipped(own) == predict(own, COSTS, curves=())


def test_a_fit_follows_the_curves_of_the_sources_of_its_rows_only() -> None:
    own, other = forward(8, source=SOURCE), forward(8)
    assert [curve.source for curve in curves_from("llama.cpp", {SOURCE})] == [SOURCE]
    for rows, known in (([own, other], curves_from("llama.cpp", {SOURCE})), ([other], ())):
        problem = Problem(rows)
        expected = [predict(one, PRIOR.of(one.engine_version), known).plain for one in rows]
        found = problem.errors(np.zeros(len(FREE)))
        measured = [one.plain_seconds or 0.0 for one in rows]
        assert found.tolist() == pytest.approx([np.log(a / b) for a, b in zip(measured, expected, strict=True)])
