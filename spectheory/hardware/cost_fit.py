"""Fitting the costs of an engine to the runs of one deployment.

The numbers of `EngineCosts` are moved by factors. The logarithm of a factor has a prior around 0, whose width is the
spread of the number in the shipped table, and the logarithm of measured over predicted seconds of a run has the width
`noise`. The costs are found by least squares with a soft L1 loss of both: like normal distributions near 0, with wider
tails, so that neither one wrong run nor one number far from its shipped value spoils the others. Few runs suffice,
because what no run determines stays where it was. `benchmarks.validation` judges this fit on published measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from spectheory.hardware.engine_costs import EngineCosts
from spectheory.hardware.runs import Run
from spectheory.hardware.timed_setup import TimedSetup

NOISE = 0.02
"""Default standard deviation of the logarithm of measured over predicted seconds."""
FARTHEST = 12.0
"""Largest logarithm of a factor, in spreads of its number."""
WIDE = 0.1
"""Least width of the residuals with which the fit starts."""
CLOSE, STEPS = 1e-12, 200
"""Tolerance of the fit, and its largest number of steps."""
STEP = 0.01
"""Change of a logarithm with which derivatives are computed."""


def fitted(
    runs: Sequence[Run], setup: TimedSetup, costs: EngineCosts, spreads: Mapping[str, float], noise: float
) -> EngineCosts:
    """The costs that explain `runs` best, starting from `costs`."""
    from scipy.optimize import least_squares

    names = _of_influence(runs, setup, costs, spreads)
    if not names:
        return costs
    logarithms = np.log([run.seconds for run in runs])

    def residuals(x: np.ndarray, width: float) -> np.ndarray:
        moved = _moved(costs, spreads, names, x)
        return np.concatenate([(np.log([setup.seconds(run, moved) for run in runs]) - logarithms) / width, x])

    most = [_room(name, getattr(costs, name)) / spreads[name] for name in names]
    bounds = np.full(len(names), -FARTHEST), np.minimum(most, FARTHEST)
    x = np.zeros(len(names))
    for width in _narrowing(noise):
        x = least_squares(
            residuals,
            x,
            bounds=bounds,
            loss="soft_l1",
            xtol=CLOSE,
            ftol=CLOSE,
            gtol=CLOSE,
            max_nfev=STEPS,
            args=(width,),
        ).x
    return _moved(costs, spreads, names, x)


def _narrowing(noise: float) -> list[float]:
    """Widths for the residuals, each at most a tenth of the one before, down to `noise`.

    A soft L1 loss of residuals far above their width converges slowly, so the fit starts with a large width.
    """
    widths = [noise]
    while widths[-1] < WIDE:
        widths.append(10 * widths[-1])
    return widths[::-1]


def deviations(
    runs: Sequence[Run], setup: TimedSetup, costs: EngineCosts, spreads: Mapping[str, float], noise: float
) -> dict[str, float]:
    """Standard deviations of the logarithms of the numbers after the fit, for those on which a run depends.

    They are linearised: from the inverse of J'J, where J has the derivatives of the runs and the priors.
    """
    names = _of_influence(runs, setup, costs, spreads)
    if not names:
        return {}
    wide = np.array([spreads[name] for name in names])
    slopes = np.array([_slopes(run, setup, costs, names) for run in runs]) * wide / noise
    inverse = np.linalg.inv(np.eye(len(names)) + slopes.T @ slopes)
    return dict(zip(names, (wide * np.sqrt(np.diag(inverse))).tolist(), strict=True))


def _of_influence(
    runs: Sequence[Run], setup: TimedSetup, costs: EngineCosts, spreads: Mapping[str, float]
) -> list[str]:
    """The numbers that may move and on which the seconds of a run depend."""
    free = [name for name in spreads if spreads[name] > 0 and getattr(costs, name) > 0]
    before = [setup.seconds(run, costs) for run in runs]

    def matters(name: str) -> bool:
        for factor in (math.exp(-2 * spreads[name]), math.exp(2 * spreads[name])):
            moved = _scaled(costs, {name: factor})
            if any(setup.seconds(run, moved) != seconds for run, seconds in zip(runs, before, strict=True)):
                return True
        return False

    return [name for name in free if matters(name)]


def _slopes(run: Run, setup: TimedSetup, costs: EngineCosts, names: Sequence[str]) -> list[float]:
    """Derivatives of the logarithm of the seconds of a run by the logarithms of the numbers."""
    middle = setup.seconds(run, costs)

    def slope(name: str) -> float:
        up = min(STEP, _room(name, getattr(costs, name)))
        higher, lower = (setup.seconds(run, _scaled(costs, {name: math.exp(step)})) for step in (up, -STEP))
        return (higher - lower) / ((up + STEP) * middle)

    return [slope(name) for name in names]


def _room(name: str, value: float) -> float:
    """By how much the logarithm of a number may rise: shares are at most 1."""
    return max(0.0, -math.log(value)) if name.endswith("_share") else math.inf


def _moved(costs: EngineCosts, spreads: Mapping[str, float], names: Sequence[str], x: np.ndarray) -> EngineCosts:
    """The costs with each number moved by its entry of `x`, in units of its spread."""
    return _scaled(costs, {name: math.exp(spreads[name] * step) for name, step in zip(names, x, strict=True)})


def _scaled(costs: EngineCosts, factors: Mapping[str, float]) -> EngineCosts:
    values = {name: getattr(costs, name) * factor for name, factor in factors.items()}
    return replace(costs, **{name: min(v, 1.0) if name.endswith("_share") else v for name, v in values.items()})
