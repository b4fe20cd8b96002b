"""Acceptance: counting rates, refused tables, smoothing, and the intervals of rates and of block efficiency."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from hypothesis.extra.numpy import arrays
from scipy.stats import beta, binom

import spectheory as st
from tests.helpers import known, refuses


def test_a_table_that_is_no_acceptance_is_refused() -> None:
    refuses(r"table\[0, 1\] must be a probability, got nan", st.Acceptance.by_depth_and_rank, [[0.5, float("nan")]])
    refuses(r"table\[1, 0\] must be a probability, got -0.1", st.Acceptance.by_depth_and_rank, [[0.5], [-0.1]])
    refuses(r"table\[1\] must sum to at most 1 .*, got 1.1", st.Acceptance.by_depth_and_rank, [[0.5, 0.2], [0.7, 0.4]])
    refuses(r"table\[0\] must sum to at most 1", st.Acceptance.by_depth_and_rank, [[float("inf")]])
    refuses("at least 1, got shape", st.Acceptance.by_depth_and_rank, [[]])
    refuses("must have shape", st.Acceptance.by_depth_and_rank, [0.5])


def brute_counts(texts: list[list[int]], ranks: int, depths: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts by definition: from every start, walk until the first miss."""
    hits, trials = np.zeros((depths, ranks), int), np.zeros(depths, int)
    for text in texts:
        for start in range(len(text)):
            for depth in range(min(depths, len(text) - start)):
                trials[depth] += 1
                rank = text[start + depth]
                if rank < 0:
                    break
                hits[depth, rank] += 1
    return hits, trials


@given(hs.lists(hs.lists(hs.integers(-1, 3), max_size=12), min_size=1, max_size=4))
def test_counts_from_ranks_are_those_of_all_windows(texts: list[list[int]]) -> None:
    hits, trials = brute_counts(texts, 4, 5)
    kept = int((trials > 0).argmin()) if (trials == 0).any() else 5
    if kept == 0:
        with pytest.raises(ValueError, match="fewer than min_trials=1: record more, or lower it"):
            st.Acceptance.from_ranks([np.array(t) for t in texts], ranks=4, max_depth=5, min_trials=1)
        return
    found = st.Acceptance.from_ranks([np.array(t) for t in texts], ranks=4, max_depth=5, min_trials=1)
    np.testing.assert_array_equal(known(found.hits), hits[:kept])
    np.testing.assert_array_equal(known(found.trials), trials[:kept])


def test_rare_depths_are_left_out() -> None:
    counts = np.array([[800, 100], [300, 50], [9, 1]]), np.array([1000, 400, 20])
    assert st.Acceptance.from_counts(*counts).table.tolist() == [[0.8, 0.1], [0.75, 0.125]]
    assert st.Acceptance.from_counts(*counts, min_trials=10).depths == 3


def test_calls_that_are_refused() -> None:
    refuses(r"rates must have shape \(ranks,\)", st.Acceptance.by_rank, np.array([[0.6, 0.2]]))
    refuses("sum to at most trials", st.Acceptance.from_counts, np.array([[5, 6]]), np.array([10]))
    refuses("given together", st.Acceptance, np.array([[0.5]]), hits=np.array([[5]]))
    refuses("interval needs counts", st.Acceptance.by_rank([0.5]).interval)
    refuses("needs counts", st.yields.block_efficiency_interval, st.Tree.chain(1), st.Acceptance.by_rank([0.5]))


@given(arrays(np.float64, (3, 5), elements=hs.floats(0, 0.2)))
def test_smoothing_is_non_increasing_keeps_the_sum_and_leaves_non_increasing_rates_alone(table: np.ndarray) -> None:
    rates = st.Acceptance.by_depth_and_rank(table)
    smooth = rates.smoothed()
    assert smooth.is_non_increasing
    np.testing.assert_allclose(smooth.table.sum(1), table.sum(1), atol=1e-12)
    np.testing.assert_allclose(smooth.smoothed().table, smooth.table, atol=1e-12)
    sorted_rates = st.Acceptance.by_depth_and_rank(-np.sort(-table, axis=1))
    np.testing.assert_allclose(sorted_rates.smoothed().table, sorted_rates.table, atol=1e-12)


def test_intervals_are_clopper_pearson() -> None:
    rates = st.Acceptance.from_counts(np.array([[30, 0, 20]]), np.array([50]), min_trials=1)
    low, high = rates.interval(0.9)
    assert binom.sf(29, 50, low[0, 0]) == pytest.approx(0.05)
    assert binom.cdf(30, 50, high[0, 0]) == pytest.approx(0.05)
    assert (low[0, 1], st.Acceptance.from_counts(np.array([[9]]), np.array([9]), min_trials=1).interval()[1][0, 0]) == (
        0,
        1,
    )


def test_the_interval_of_a_yield_carries_the_counts() -> None:
    def width(scale: int) -> float:
        counts = np.array([[60, 20], [50, 20]]) * scale, np.array([100, 100]) * scale
        low, high = st.yields.block_efficiency_interval(st.Tree.k_ary(2, 3), st.Acceptance.from_counts(*counts))
        return high - low

    assert width(1) / width(100) == pytest.approx(10, rel=0.1)
    rates = st.Acceptance.from_counts(np.array([[600]]), np.array([1000]))
    found = st.yields.block_efficiency_interval(st.Tree.chain(1), rates, draws=20_000)
    # the quantiles of 20,000 draws lie within 1.5e-3 (5 standard errors) of those of 1 + Beta(600.5, 400.5)
    assert found == pytest.approx(1 + beta.ppf([0.025, 0.975], 600.5, 400.5), abs=1.5e-3)


def test_reach_is_the_product_of_rates() -> None:
    rates = st.Acceptance.by_depth_and_rank([[0.5, 0.25], [0.75, 0.125], [0.5, 0.0]])
    tree = st.Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 0, 0)])
    expected = {(0,): 1 / 2, (1,): 1 / 4, (2,): 0, (0, 0): 3 / 8, (0, 1): 1 / 16, (1, 0): 3 / 16}
    expected |= {(0, 0, 0): 3 / 16, (0, 0, 0, 0): 3 / 32}
    assert dict(zip(tree.to_paths(), st.reach(tree, rates)[1:], strict=True)) == expected
    assert st.block_efficiency(tree, rates) == 1 + sum(expected.values())
    assert st.block_efficiency(st.Tree.chain(0), rates) == 1
