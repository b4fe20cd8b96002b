"""Whether acceptance fell: the bets are fair, the levels and the stated power hold, and bad input is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from scipy.stats import binom

from spectheory.results.acceptance_drop import _Bets, drop_verdict, prompts_needed
from spectheory.results.paired_difference import Ratio
from tests.helpers import refuses

counts = hs.tuples(hs.integers(0, 40), hs.integers(0, 20))
pairs = hs.lists(hs.tuples(counts, counts), min_size=1, max_size=7)


def traces(prompts: int, seed: int) -> Ratio:
    """Requests of 60 to 200 cycles of three drafted tokens, whose rates differ from prompt to prompt."""
    rng = np.random.default_rng(seed)
    cycles, rates = rng.integers(60, 200, prompts), rng.beta(6, 4, prompts)
    return Ratio(cycles + sum(rng.binomial(cycles, rates**d) for d in (1, 2, 3)), cycles)


@given(pairs, hs.sampled_from([0.02, 0.5]))
def test_the_bets_are_fair_over_all_orders_of_both_counts_of_a_prompt(drawn: list, drop: float) -> None:
    """Exact up to rounding: the mean wealth over all 2^n swaps is 1, and alpha times it 0.5, after every prompt."""
    swaps = np.array(list(product([0, 1], repeat=len(drawn))))
    both, rows = np.array(drawn, float), np.arange(len(drawn))
    one, other = both[rows, swaps], both[rows, 1 - swaps]
    wealth = _Bets(drop, 0.5, len(swaps)).after(Ratio(*np.moveaxis(one, 2, 0)), Ratio(*np.moveaxis(other, 2, 0)))
    assert np.exp(wealth).mean(axis=0) == pytest.approx(0.5)


@pytest.mark.parametrize("replays", [1_000, pytest.param(100_000, marks=pytest.mark.deep)])
def test_both_verdicts_keep_their_levels_and_the_power_is_as_stated(replays: int) -> None:
    """At alpha = 0.05. More wrong verdicts than the bound have probability at most 1e-4 each (Binomial); so has a power
    that is off by 2 points and more than chance."""
    recorded, rng, seen = traces(300, 0), np.random.default_rng(3), np.zeros(3, int)
    needed = prompts_needed(recorded, None, 0.05, 0.05)
    assert needed
    for _ in range(replays // 1_000):
        drawn = rng.integers(300, size=(2, 1_000, needed))
        first, second = (Ratio(recorded.numerators[i], recorded.denominators[i]) for i in drawn)
        lower = Ratio(second.numerators, second.denominators / 0.95)
        for i, pair in enumerate([(first, second), (second, first), (first, lower)]):
            seen[i] += (_Bets(0.05, 0.05, 1_000).after(*pair) >= 0).any(axis=1).sum()
    print(needed, "prompts: false FELL, false HELD, found", seen, "of", replays)
    assert max(seen[:2]) <= binom.ppf(1 - 1e-4, replays, 0.05)
    assert binom.ppf(5e-5, replays, 0.88) <= seen[2] <= binom.ppf(1 - 5e-5, replays, 0.92)


def test_the_same_prompts_need_fewer_and_bad_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = traces(60, 4)
    slower = Ratio(recorded.numerators, recorded.denominators * 1.1)
    other, same = prompts_needed(recorded, None, 0.05), prompts_needed(recorded, slower, 0.05)
    assert 10 * (same or other or 0) < (other or 0)
    assert drop_verdict(recorded, slower, 0.05)[0] == "FELL"
    assert drop_verdict(slower, recorded, 0.05)[0] == "HELD"
    assert drop_verdict(traces(5, 1), traces(5, 2), 0.05) == ("UNDECIDED", 5)
    monkeypatch.setattr("spectheory.results.acceptance_drop.MOST", 200)
    assert prompts_needed(recorded, None, 0.01) is None
    refuses("alpha must be a number from .*, got 1", drop_verdict, recorded, slower, 0.1, 1.0)
    refuses("nothing was drafted in one", prompts_needed, recorded, Ratio(np.zeros(60), np.zeros(60)), 0.1)
