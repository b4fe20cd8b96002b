"""What an engine's limits leave of a plan, against a search of all that it can run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import ChainRange, Envelope
from spectheory.planning.envelope import Envelopes
from spectheory.planning.offer import (
    Fit,
    MostNodes,
    Offer,
    PlainIsFastestError,
    at_most,
    first_is_longest,
    name_for_engines,
    one_length,
)
from spectheory.planning.scheduler import schedule
from tests.test_envelope import RATES, grown

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
    found = offer.chains(first_is_longest, "X takes")
    lengths = [LONGEST] * 3
    lost = [1 - speedup(offer, i, n) / offer.schedule.speedup[i] for i, n in enumerate(lengths)]
    assert found.shape == [ChainRange(1, 9, LONGEST)], "two of three batch sizes gain more than the first loses"
    assert offer.notes(found) == (
        f"for batch sizes 1 to 9, the fastest chains that X takes: predicted {np.mean(lost):.1%} slower on average, "
        f"each planned batch size counted once, {lost[0]:.1%} slower at batch size 1 than the plan",
    )
    assert len(found.shape) == 1, "one length at all batch sizes leaves nothing to say of those between"
    found = offer.chains(at_most(LONGEST), "X takes")
    assert (found.shape[0].last_batch, found.shape[1:]) == (3, [ChainRange(4, 9, LONGEST)])
    assert offer.notes(found) == (
        "for batch sizes 1 to 9, the fastest chains that X takes: predicted no slower than the plan",
        "batch sizes between planned ones take the chain of the smaller",
    )


def tree_offer(batches: tuple[int, ...], rates: st.Acceptance) -> Offer:
    """Of a roofline, for trees of up to 12 nodes."""

    def latency_at(batch: int) -> st.Latency:
        return st.Latency.roofline(gpu="h100_sxm", target="llama-3.1-8b", draft="eagle3-llama-3.1-8b", batch=batch)

    planned = schedule(rates, latency_at, batches, context=1024, max_budget=12)
    return Offer(planned, Envelopes(rates, max_budget=12), latency_at, 12, "d")


@pytest.mark.parametrize("most_nodes", [None, lambda levels, branching: levels * branching], ids=["SGLang", "TRT-LLM"])
def test_one_envelope_for_all_batch_sizes_is_the_best_of_all(most_nodes: MostNodes | None) -> None:
    offer = tree_offer((1, 16, 64), RATES)
    found, shares = offer.envelope(most_nodes), {}
    for levels, branching in itertools.product(range(1, 7), range(1, RATES.ranks + 1)):
        pool = branching + (levels - 1) * branching**2
        for nodes in range(1, min(12, pool if most_nodes is None else most_nodes(levels, branching)) + 1):
            seconds = [
                at.draft(1, 1024)
                + (levels - 1) * at.draft(branching, 1024)
                + at.target(nodes + 1, 1024)
                + at.overhead_seconds
                + levels * at.level_overhead_seconds
                for at in offer.latencies
            ]
            plain = [at.plain(1024) for at in offer.latencies]
            reached = grown(levels, branching, nodes) * np.array(plain) / seconds
            shares[levels, branching, nodes] = (reached / offer.schedule.speedup).mean()
    assert offer.share(found.speedups) == pytest.approx(max(shares.values()))
    shape = (found.shape.levels, found.shape.branching, found.shape.nodes)
    assert shares[shape] == pytest.approx(max(shares.values()))


def test_the_better_of_chains_and_one_envelope_is_taken_and_both_losses_are_said() -> None:
    offer = tree_offer((1, 4, 16), st.Acceptance.by_rank([0.5, 0.2, 0.1]))
    found, (taken, other, capped) = offer.better(at_most(12), "X takes")
    chains = offer.chains(at_most(12), "X takes")
    assert isinstance(found.shape, Envelope)
    assert offer.share(found.speedups) > offer.share(chains.speedups)
    assert taken == f"for batch sizes 1 to 16, {found.what}: predicted {offer.loss(found.speedups)}"
    assert other == f"not taken, the fastest chains that X takes: predicted {offer.loss(chains.speedups)}"
    assert capped == "3 ranks are recorded, which bounds the branching of trees"
    alone = tree_offer((1, 4, 16), st.Acceptance.by_rank([0.5]))
    found, notes = alone.better(at_most(12), "X takes")
    assert not isinstance(found.shape, Envelope), "chains by batch size beat one length"
    assert notes[1:] == ("1 rank is recorded, which bounds the branching of trees",)


def test_one_shape_says_its_batch_size_and_what_it_loses_there_and_elsewhere() -> None:
    offer = tree_offer((1, 256), st.Acceptance.by_rank([0.6, 0.15, 0.06]))
    reached = offer.speedups_of(offer.tree)
    (note,) = offer.notes_at_first(reached)
    lost = 1 - reached / offer.schedule.speedup
    assert lost[1] > 0.01
    assert note == (
        f"for batch size 1: predicted no slower than the plan; run at all of 1 to 256, {lost.mean():.1%} slower on "
        f"average, each planned batch size counted once, {lost[1]:.1%} slower at batch size 256 than the plan"
    )
    (note,) = offer.notes_at_first(reached, alone=True)
    assert note == "for batch size 1, the only one at which it drafts: predicted no slower than the plan"
    alone = tree_offer((1,), st.Acceptance.by_rank([0.6, 0.15, 0.06]))
    lost = 1 - alone.speedups[0, alone.chain] / alone.schedule.speedup[0]
    assert alone.notes_at_first(alone.speedups[:, alone.chain]) == (
        f"for batch size 1: predicted {lost:.1%} slower than the plan",
    )


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
