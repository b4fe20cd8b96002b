"""The robust linear fit agrees with scipy's, holds parameters at their limits, and forgives a gross error."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.validation.robust import NOISE, Linear


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
