"""Statistics of the judge: paired differences, their coverage, the smallest detectable one, and the record."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from spectheory.core.ratios import ratio_half_width
from spectheory.replay.reliability import BINS, RANKS, ranked, reliability
from spectheory.results.draft_comparison import LEVEL, POWER
from spectheory.results.draft_run import calibration_error
from spectheory.results.paired_difference import PairedDifference, Ratio, mean_half_width, paired_difference
from tests.refusals import refuses

ERROR = 1e-6
"""Error level of the statistical tests; their seeds are fixed."""


def simulated(
    rng: np.random.Generator, effect: float, seeds: int, prompts: int = 40, spread: float = 0.0, start: float = 0.0
) -> list[list[Ratio]]:
    """A group that is better by the share `effect`, and its baseline, on prompts that are harder and easier.

    Each run has noise of its own at each prompt, `spread` is the standard deviation of what its training adds, and
    `start` that of what the run shares with the run of the same place in the other group.
    """
    starts = rng.normal(0, start, seeds)
    hardness = rng.normal(0, 0.3, prompts)
    cycles = rng.integers(20, 60, prompts).astype(np.float64)
    groups = []
    for gain in (effect, 0.0):
        runs = []
        for shared in starts:
            level = 3 * (1 + gain) * (1 + shared + rng.normal(0, spread)) + hardness + rng.normal(0, 0.1, prompts)
            runs.append(Ratio(level * cycles, cycles))
        groups.append(runs)
    return groups


@pytest.mark.parametrize(("seeds", "spread"), [(1, 0.0), (3, 0.02)])
def test_the_paired_interval_covers_the_true_difference(seeds: int, spread: float) -> None:
    """In at least 94% of samples of 40 prompts, one point below its level; error level 1e-6."""
    rng, times = np.random.default_rng(seeds), 1000
    found = [paired_difference(*simulated(rng, 0.02, seeds, spread=spread)) for _ in range(times)]
    covered = sum(abs(one.percent - 2) <= one.half_width(LEVEL) for one in found)
    assert covered >= binom.ppf(ERROR, times, LEVEL - 0.01)


def test_runs_that_share_a_start_are_paired_and_the_interval_still_covers() -> None:
    """In at least 94% of samples, at error level 1e-6; what is shared is then left out of the interval."""
    rng, times = np.random.default_rng(9), 1000
    samples = [simulated(rng, 0.02, 3, spread=0.005, start=0.05) for _ in range(times)]
    found = [paired_difference(*groups, by_run=True) for groups in samples]
    covered = sum(abs(one.percent - 2) <= one.half_width(LEVEL) for one in found)
    assert covered >= binom.ppf(ERROR, times, LEVEL - 0.01)
    apart = [paired_difference(*groups) for groups in samples]
    assert np.median([one.error for one in found]) < np.median([one.error for one in apart]) / 2


def test_runs_are_paired_only_in_groups_of_one_size() -> None:
    group, base = simulated(np.random.default_rng(0), 0.02, 2)
    refuses("by_run needs groups of the same size, got 2 and 1 runs", paired_difference, group, base[:1], by_run=True)


def test_pairing_makes_the_interval_narrower() -> None:
    group, base = simulated(np.random.default_rng(0), 0.02, 1)
    paired = paired_difference(group, base).half_width(LEVEL)
    alone = [100 * ratio_half_width(run.numerators, run.denominators) / run.value for run in (*group, *base)]
    assert paired < math.hypot(*alone) / 2


def test_the_spread_between_seeds_is_in_the_interval() -> None:
    """With equal texts of all runs of a group, the part between clusters is that of one run."""
    cycles = np.array([10.0, 10, 10, 10])
    base = [Ratio(cycles * np.array([2.0, 3, 2, 3]), cycles)]
    group = [Ratio(base[0].numerators + cycles * shift, cycles) for shift in (0.0, 0.1, 0.2)]
    found = paired_difference(group, base)
    between = (0.1**2 / 3) / 2.5**2
    ratio = 2.6 / 2.5
    clusters = ratio**2 * 4 / 3 * 4 * (0.5 / 4 * (1 / 2.6 - 1 / 2.5)) ** 2
    assert found.percent == pytest.approx(4)
    assert found.error == pytest.approx(100 * math.sqrt(between + clusters), rel=1e-9)
    assert found.degrees == pytest.approx((between + clusters) ** 2 / (between**2 / 2 + clusters**2 / 3), rel=1e-9)


def test_one_run_has_the_usual_interval_of_a_ratio() -> None:
    emitted, cycles = np.array([30.0, 20, 45]), np.array([10.0, 9, 14])
    assert mean_half_width([Ratio(emitted, cycles)], LEVEL) == pytest.approx(
        ratio_half_width(emitted, cycles), rel=1e-12
    )


@pytest.mark.parametrize("degrees", [2.0, 5.0, 99.0])
def test_the_smallest_detectable_difference_is_detected_as_often_as_stated(degrees: float) -> None:
    """Simulated estimates with their errors: detected with probability `POWER`, at error level 1e-6 (two-sided)."""
    rng, times = np.random.default_rng(7), 200_000
    true = PairedDifference(0.0, 1.0, degrees).minimum_detectable(LEVEL, POWER)
    errors = np.sqrt(rng.chisquare(degrees, times) / degrees)
    limit = PairedDifference(0.0, 1.0, degrees).half_width(LEVEL)
    detected = int((rng.normal(true, 1, times) > limit * errors).sum())
    assert binom.ppf(ERROR / 2, times, POWER) <= detected <= binom.ppf(1 - ERROR / 2, times, POWER)


def test_a_comparison_detects_as_often_as_its_smallest_difference_says() -> None:
    """The whole way from clusters: the power at the mean detectable difference is `POWER`, within 0.03 for the
    differences between samples, at error level 1e-6."""
    rng = np.random.default_rng(11)
    samples = [paired_difference(*simulated(rng, 0.0, 1)) for _ in range(200)]
    detectable = float(np.mean([one.minimum_detectable(LEVEL, POWER) for one in samples]))
    times = 1000
    found = [paired_difference(*simulated(rng, detectable / 100, 1)) for _ in range(times)]
    detected = sum(one.percent > one.half_width(LEVEL) for one in found)
    assert binom.ppf(ERROR / 2, times, POWER - 0.03) <= detected <= binom.ppf(1 - ERROR / 2, times, POWER + 0.03)


def test_fewer_than_two_prompts_and_no_runs_are_refused() -> None:
    one = [Ratio(np.array([3.0, 0]), np.array([1.0, 0]))]
    refuses("needs at least 2 prompts with cycles, got 1", paired_difference, one, one)
    refuses("runs must be at least one, got none", paired_difference, [], one)


def test_the_reliability_counts_ranks_and_parts() -> None:
    p, q = np.array([[0.5, 0.25, 0.25]]), np.array([[0.25, 0.25, 0.5]])
    promised, hits = ranked(p, q)
    assert promised.tolist() == [[0.5, 0.25, 0.25, 0]]
    assert hits.tolist() == [[0.25, 0.5, 0.25, 0]]
    table = reliability(np.array([2.0]), promised, hits)
    assert table.shape == (RANKS, BINS, 3)
    assert table[0, 5].tolist() == [2, 1, 0.5]
    assert table[1, 2].tolist() == [2, 0.5, 1]
    assert table.sum() == pytest.approx(2 * (4 + 1 + 1))
    assert calibration_error(table).tolist() == [0.25, 0.25, 0, 0]
