"""Paired differences: their intervals cover the true difference, over prompts and over seeds of training."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from spectheory.core.ratios import ratio_half_width
from spectheory.results.paired_difference import Ratio, mean_half_width, paired_difference
from tests.helpers import refuses

LEVEL = 0.95
ERROR = 1e-6
"""Error level of the statistical tests; their seeds are fixed."""


def simulated(
    rng: np.random.Generator, effect: float, seeds: int, spread: float = 0.0, start: float = 0.0
) -> list[list[Ratio]]:
    """A group that is better by the share `effect`, and its baseline, on 40 prompts that are harder and easier.

    Each run has noise of its own at each prompt, `spread` is the standard deviation of what its training adds, and
    `start` that of what the run shares with the run of the same place in the other group.
    """
    starts, hardness = rng.normal(0, start, seeds), rng.normal(0, 0.3, 40)
    cycles = rng.integers(20, 60, 40).astype(np.float64)
    groups = []
    for gain in (effect, 0.0):
        runs = []
        for shared in starts:
            level = 3 * (1 + gain) * (1 + shared + rng.normal(0, spread)) + hardness + rng.normal(0, 0.1, 40)
            runs.append(Ratio(level * cycles, cycles))
        groups.append(runs)
    return groups


@pytest.mark.parametrize(("seeds", "spread", "start"), [(3, 0.02, 0.0), (3, 0.005, 0.05)])
def test_the_paired_interval_covers_the_true_difference(seeds: int, spread: float, start: float) -> None:
    """In at least 94% of samples of 40 prompts, one point below its level; error level 1e-6.

    Runs that share a start are paired, and what they share is left out of the interval.
    """
    rng, times, by_run = np.random.default_rng(seeds), 1000, start > 0
    samples = [simulated(rng, 0.02, seeds, spread, start) for _ in range(times)]
    found = [paired_difference(*groups, by_run=by_run) for groups in samples]
    covered = sum(abs(one.percent - 2) <= one.half_width(LEVEL) for one in found)
    assert covered >= binom.ppf(ERROR, times, LEVEL - 0.01)
    if by_run:
        apart = [paired_difference(*groups).error for groups in samples]
        assert np.median([one.error for one in found]) < np.median(apart) / 2


def test_the_spread_between_seeds_is_in_the_interval_and_one_run_has_the_usual_one() -> None:
    """With equal texts of all runs of a group, the part between clusters is that of one run."""
    cycles = np.array([10.0, 10, 10, 10])
    base = [Ratio(cycles * np.array([2.0, 3, 2, 3]), cycles)]
    group = [Ratio(base[0].numerators + cycles * shift, cycles) for shift in (0.0, 0.1, 0.2)]
    found = paired_difference(group, base)
    between, ratio = (0.1**2 / 3) / 2.5**2, 2.6 / 2.5
    clusters = ratio**2 * 4 / 3 * 4 * (0.5 / 4 * (1 / 2.6 - 1 / 2.5)) ** 2
    assert found.percent == pytest.approx(4)
    assert found.error == pytest.approx(100 * (between + clusters) ** 0.5, rel=1e-9)
    assert found.degrees == pytest.approx((between + clusters) ** 2 / (between**2 / 2 + clusters**2 / 3), rel=1e-9)
    emitted, cycles = np.array([30.0, 20, 45]), np.array([10.0, 9, 14])
    usual = ratio_half_width(emitted, cycles)
    assert mean_half_width([Ratio(emitted, cycles)], LEVEL) == pytest.approx(usual, rel=1e-12)
    one = [Ratio(np.array([3.0, 0]), np.array([1.0, 0]))]
    refuses("needs at least 2 prompts with cycles, got 1", paired_difference, one, one)
