"""What an engine's limits leave of a plan, against a search of all that it can run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import spectheory as st
from spectheory.cli.offer import (
    Fit,
    Offer,
    PlainIsFastestError,
    at_most,
    first_is_longest,
    name_for_engines,
    one_length,
)
from spectheory.engines import ChainRange
from spectheory.schedule import schedule
from spectheory.search.envelope import Envelopes

LONGEST, BATCHES = 4, (1, 4, 9)
costs = hs.lists(hs.lists(hs.floats(0.0, 0.6), min_size=LONGEST, max_size=LONGEST), min_size=3, max_size=3)
"""What each more token costs the target, by batch size."""


def offer_of(rate: float, steps: list[list[float]]) -> Offer:
    rates = st.Acceptance.by_rank([rate])

    def latency_at(batch: int) -> st.Latency:
        target = 1 + np.cumsum([0.0, *steps[BATCHES.index(batch)]])
        draft = np.full(LONGEST + 1, 0.05)
        return st.Latency(np.arange(1, LONGEST + 2), np.array([0]), target[None], draft[None], overhead_seconds=0.01)

    planned = schedule(rates, latency_at, BATCHES, context=0, max_budget=LONGEST)
    return Offer(planned, Envelopes(rates, max_levels=LONGEST), latency_at, LONGEST, "d")


def speedup(offer: Offer, row: int, length: int) -> float:
    """By the definitions: tokens of a cycle by its seconds, over those of plain decoding."""
    latency, chain = offer.latency_at(BATCHES[row]), st.Tree.chain(length)
    return st.block_efficiency(chain, offer.schedule.acceptance) * latency.plain(0) / latency.cycle(chain, 0)


def share(offer: Offer, lengths: tuple[int, ...]) -> float:
    """The mean share of the plan's speed."""
    return float(np.mean([speedup(offer, i, n) / offer.schedule.chain_speedup[i] for i, n in enumerate(lengths)]))


every = list(itertools.product(range(LONGEST + 1), repeat=3))
LIMITS = {
    "at most 2": (at_most(2), [lengths for lengths in every if max(lengths) <= 2]),
    "one length": (one_length(3), [lengths for lengths in every if len(set(lengths)) == 1 and lengths[0] <= 3]),
    "first is longest": (first_is_longest, [lengths for lengths in every if max(lengths) == lengths[0]]),
}


@pytest.mark.parametrize(("fit", "runnable"), LIMITS.values(), ids=LIMITS)
@given(rate=hs.floats(0.2, 0.95), steps=costs)
@settings(max_examples=40, deadline=None)
def test_no_schedule_that_the_engine_can_run_is_faster(
    fit: Fit, runnable: list[tuple[int, ...]], rate: float, steps: list[list[float]]
) -> None:
    offer = offer_of(rate, steps)
    found = tuple(fit(offer).tolist())
    assert found in runnable
    assert share(offer, found) == pytest.approx(max(share(offer, lengths) for lengths in runnable), abs=1e-12)


def test_the_loss_is_stated_by_mean_and_worst_and_not_where_there_is_none() -> None:
    offer = offer_of(0.8, [[0.5] * 4, [0.0] * 4, [0.0] * 4])
    assert offer.planned[0] < offer.planned[1] == LONGEST
    ranges, notes = offer.chains(first_is_longest, "X takes")
    lengths = [LONGEST] * 3
    lost = [1 - speedup(offer, i, n) / offer.schedule.speedup[i] for i, n in enumerate(lengths)]
    assert ranges == [ChainRange(1, 9, LONGEST)], "two of three batch sizes gain more than the first loses"
    assert notes == (
        f"these are the fastest chains that X takes: {np.mean(lost):.1%} slower on average over the batch sizes, "
        f"{lost[0]:.1%} slower at batch size 1 than the plan",
    )
    ranges, notes = offer.chains(at_most(LONGEST), "X takes")
    assert (ranges[0].last_batch, ranges[1:], notes) == (3, [ChainRange(4, 9, LONGEST)], ())


def test_where_plain_decoding_is_fastest_nothing_is_offered() -> None:
    offer = offer_of(0.2, [[0.6] * 4] * 3)
    for ask in (lambda: offer.tree, lambda: offer.chain, lambda: offer.chains(at_most(4), "X takes")):
        with pytest.raises(PlainIsFastestError, match="beats plain decoding at"):
            ask()
    only_first = offer_of(0.35, [[0.0] * 4, [3.0] * 4, [3.0] * 4])
    with pytest.raises(PlainIsFastestError, match="no chain that X takes beats plain decoding, on average"):
        only_first.chains(one_length(4), "X takes")


def test_names_that_engines_load() -> None:
    for draft, name in [
        ("llama-3.2-1b", "meta-llama/Llama-3.2-1B"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
        ("a/b/config.json", "a/b"),
        ("config.json", "."),
        ("a/eagle.json", "a"),
        ("owner/name", "owner/name"),
        ("", ""),
    ]:
        assert name_for_engines(draft) == name
