"""How uncertain speedups are by the costs of the engine, and which measurement narrows them most."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import spectheory as st
from spectheory.engines import Run
from spectheory.hardware.calibrated_costs import uncertainty_left
from spectheory.hardware.engine_costs import EngineCosts, spreads
from spectheory.hardware.uncertainty import NOISE, CostUncertainty, deviations_left, gradients
from spectheory.planning.deployment import Deployment
from tests.planning.confident import PAIR
from tests.refusals import refuses


def test_what_a_measurement_leaves_is_the_conditional_deviation_of_a_gaussian() -> None:
    """By the inverse of the posterior precision, which is another formula than the one in the library."""
    rng = np.random.default_rng(5)
    predicted, measured, wide = rng.normal(size=6), rng.normal(size=(6, 4)), rng.uniform(0.1, 1, 6)
    before, after = deviations_left(predicted, measured, np.diag(wide**2), noise=0.07)
    assert before == pytest.approx(np.sqrt(predicted @ np.diag(wide**2) @ predicted), rel=1e-12)
    for column, left in zip(measured.T, after, strict=True):
        posterior = np.linalg.inv(np.diag(wide**-2.0) + np.outer(column, column) / 0.07**2)
        assert left == pytest.approx(np.sqrt(predicted @ posterior @ predicted), rel=1e-9)


def test_measuring_the_speedup_itself_leaves_the_noise_and_an_unrelated_one_leaves_all() -> None:
    predicted, wide = np.array([0.5, 0.0]), np.array([10.0, 1.0])
    before, after = deviations_left(predicted, np.array([[0.5, 0.0], [0.0, 1.0]]), np.diag(wide**2), noise=0.02)
    assert before == pytest.approx(5.0)
    assert after[0] == pytest.approx(0.02, rel=1e-4)
    assert after[1] == before


def test_gradients_of_powers_are_their_exponents() -> None:
    costs, wide = EngineCosts.of("vllm"), spreads("vllm")
    names = [name for name, spread in wide.items() if spread > 0]

    def logarithms(at: EngineCosts) -> np.ndarray:
        return np.array([2 * math.log(at.bandwidth_share), -math.log(at.step_seconds * at.bandwidth_share)])

    found = gradients(logarithms, costs, wide)
    expected = np.zeros((len(names), 2))
    expected[names.index("bandwidth_share")] = 2, -1
    expected[names.index("step_seconds")] = 0, -1
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_named_measurement_is_the_best_one_by_conditioning_on_draws() -> None:
    """Costs are drawn from their spreads, made narrower by 10 so that predictions are linear. The deviation that a
    measurement leaves of the speedup is that of the residuals of a linear regression on it, over 1,500 draws; the
    standard error of such a deviation is 1.8%, so 8% is beyond 4 standard errors.
    """
    latency = st.Latency.roofline(**PAIR, batch=8)
    inputs, tree = latency.inputs, st.Tree.chain(3)
    assert inputs is not None
    rng, costs, wide = np.random.default_rng(3), inputs.place.costs, {k: v / 10 for k, v in spreads("vllm").items()}

    def logarithms(at: EngineCosts) -> np.ndarray:
        times = dataclasses.replace(latency, **inputs.with_costs(at).seconds(latency.tokens.tolist()), inputs=None)
        return np.log([times.plain(1024) / times.cycle(tree, 1024), times.plain(1024), times.cycle(tree, 1024)])

    names = [name for name, spread in wide.items() if spread > 0]
    found, widths = gradients(logarithms, costs, wide), np.array([wide[name] for name in names])
    before, after = deviations_left(found[:, 0], found[:, 1:], np.diag(widths**2), noise=NOISE / 10)
    draws = []
    for _ in range(1500):
        factors = np.exp(widths * rng.normal(size=len(names)))
        moved = {name: getattr(costs, name) * by for name, by in zip(names, factors, strict=True)}
        shares = {name: min(1.0, value) for name, value in moved.items() if name.endswith("_share")}
        draws.append(logarithms(dataclasses.replace(costs, **moved | shares)))
    seen = np.array(draws)
    seen[:, 1:] += NOISE / 10 * rng.normal(size=(len(seen), 2))
    seen -= seen.mean(0)
    assert seen[:, 0].std() == pytest.approx(before, rel=0.08)
    for column, left in zip(seen[:, 1:].T, after, strict=True):
        residual = seen[:, 0] - column * (column @ seen[:, 0]) / (column @ column)
        assert residual.std() == pytest.approx(left, rel=0.08)


def test_what_runs_leave_is_the_posterior_covariance() -> None:
    """By the inverse of the precision; a number without a spread has no row."""
    rng = np.random.default_rng(8)
    names = ["bandwidth_share", "layer_seconds", "step_seconds"]
    wide = dict(zip(names, (0.2, 0.5, 0.3), strict=True))
    runs = [dict(zip(names, row, strict=True)) for row in rng.normal(size=(2, 3)).tolist()]
    found = CostUncertainty(wide | {"memory_share": 0.0}, tuple(runs))
    slopes, prior = np.array([list(run.values()) for run in runs]), np.array(list(wide.values()))
    assert found.names == names
    np.testing.assert_allclose(found.covariance, np.linalg.inv(np.diag(prior**-2.0) + slopes.T @ slopes), rtol=1e-9)
    alone = CostUncertainty(wide)
    np.testing.assert_allclose(alone.covariance, np.diag(prior**2), atol=1e-15)


def calibration(*others: Run) -> st.CalibratedCosts:
    plain = [Run.from_throughput(rate, batch=batch, context=512) for rate, batch in ((150.0, 1), (6000.0, 64))]
    return st.calibrate([*plain, *others], **PAIR)


def test_the_uncertainty_after_a_calibration_has_its_deviations() -> None:
    """The record computes them on its own, with central differences: they agree to first order in their step of 1%."""
    calibrated = calibration()
    left = uncertainty_left(calibrated)
    found = dict(zip(left.names, np.sqrt(np.diag(left.covariance)), strict=True))
    for name, deviation in calibrated.deviations.items():
        assert found[name] == pytest.approx(deviation, rel=0.02), name
    assert min(found[name] / calibrated.spreads[name] for name in found) < 0.8, "the runs tell something"


def test_a_latency_keeps_the_uncertainty_of_its_calibrated_costs() -> None:
    latency = Deployment(**PAIR, context=512, costs=calibration()).latency(2)
    again = st.Latency.from_dict(json.loads(json.dumps(latency.to_dict())))
    assert latency.inputs is not None
    assert again.inputs == latency.inputs
    assert latency.inputs.uncertainty == uncertainty_left(calibration())


def test_an_impossible_uncertainty_is_refused() -> None:
    refuses("spreads must be numbers from 0 to 100 by the names of EngineCosts", CostUncertainty, {"speed": 0.1}, ())
    refuses("spreads must be numbers", CostUncertainty, {"step_seconds": -0.1}, ())
    refuses("spreads must be numbers", CostUncertainty, {"step_seconds": math.nan}, ())
    refuses("runs must have a finite derivative", CostUncertainty, {"step_seconds": 0.1}, ({"layer_seconds": 1.0},))
    refuses("runs must have a finite derivative", CostUncertainty, {"step_seconds": 0.1}, ({"step_seconds": math.inf},))
    refuses(
        "runs must have a finite derivative by each number with a",
        CostUncertainty,
        {"step_seconds": 0.0},
        ({"step_seconds": 1.0},),
    )
