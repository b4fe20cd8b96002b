"""What an engine's limits leave of a plan, against a search of all that it can run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import ChainRange, Envelope
from spectheory.planning.fitting import (
    Fitting,
    LengthRule,
    MostNodes,
    PlainIsFastestError,
    at_most,
    checked_ranges,
    first_is_longest,
    one_length,
    one_length_then_off,
)
from spectheory.planning.planner import schedule
from tests.engines.examples import RANGES
from tests.helpers import refuses
from tests.planning.test_envelope import RATES, grown

LONGEST, BATCHES = 4, (1, 4, 9)
costs = hs.lists(hs.lists(hs.floats(0.0, 0.6), min_size=LONGEST, max_size=LONGEST), min_size=3, max_size=3)
"""What each more token costs the target, by batch size."""


def fitting_of(rate: float, steps: list[list[float]]) -> Fitting:
    rates = st.Acceptance.by_rank([rate])

    def latency_at(batch: int) -> st.Latency:
        target = 1 + np.cumsum([0.0, *steps[BATCHES.index(batch)]])
        draft = np.full(LONGEST + 1, 0.05)
        return st.Latency(np.arange(1, LONGEST + 2), np.array([0]), target[None], draft[None], overhead_seconds=0.01)

    planned = schedule(rates, latency_at, BATCHES, context=0, max_budget=LONGEST)
    return Fitting(planned, "d")


def speedup(fitting: Fitting, row: int, length: int) -> float:
    """By definition: tokens per second with this chain, divided by tokens per second of plain decoding."""
    latency, chain = fitting.schedule.latencies[row], st.Tree.chain(length)
    return st.block_efficiency(chain, fitting.schedule.acceptance) * latency.plain(0) / latency.cycle(chain, 0)


every = list(itertools.product(range(LONGEST + 1), repeat=3))


def shares(fitting: Fitting) -> dict[tuple[int, ...], float]:
    """The mean share of the plan's speed, by chain lengths at the three batch sizes."""
    lengths, fastest = range(LONGEST + 1), fitting.schedule.chain_speedups
    each = [[speedup(fitting, i, n) / fastest[i] for n in lengths] for i in range(3)]
    return {chosen: float(np.mean([each[i][n] for i, n in enumerate(chosen)])) for chosen in every}


LIMITS: dict[str, tuple[LengthRule, list[tuple[int, ...]]]] = {
    "at most 2": (at_most(2), [lengths for lengths in every if max(lengths) <= 2]),
    "one length": (one_length, [lengths for lengths in every if len(set(lengths)) == 1]),
    "one length, then off": (
        one_length_then_off,
        [(k,) * n + (0,) * (3 - n) for k in range(LONGEST + 1) for n in range(4)],
    ),
}


@given(rate=hs.floats(0.2, 0.95), steps=costs)
@settings(max_examples=40)
def test_no_schedule_that_the_engine_can_run_is_faster(rate: float, steps: list[list[float]]) -> None:
    """Each plan under every limit."""
    fitting = fitting_of(rate, steps)
    speed = shares(fitting)
    for name, (rule, runnable) in LIMITS.items():
        found = tuple(rule(fitting).tolist())
        assert found in runnable, name
        assert speed[found] == pytest.approx(max(speed[lengths] for lengths in runnable), abs=1e-12), name


def test_the_loss_is_stated_by_mean_and_worst_and_not_where_there_is_none() -> None:
    fitting = fitting_of(0.8, [[0.5] * 4, [0.0] * 4, [0.0] * 4])
    assert fitting.chain_lengths[0] < fitting.chain_lengths[1] == LONGEST
    found = fitting.chains(first_is_longest, "X takes")
    lengths = [LONGEST] * 3
    lost = [1 - speedup(fitting, i, n) / fitting.schedule.speedups[i] for i, n in enumerate(lengths)]
    assert found.runs == [ChainRange(1, 9, LONGEST)], "two of three batch sizes gain more than the first loses"
    assert fitting.notes(found) == (
        f"for batch sizes 1 to 9, the fastest chains that X takes: predicted {np.mean(lost):.1%} slower on average, "
        f"each planned batch size counted once, {lost[0]:.1%} slower at batch size 1 than the plan",
    )
    assert len(found.runs) == 1, "one length at all batch sizes leaves nothing to say of those between"
    found = fitting.chains(at_most(LONGEST), "X takes")
    assert (found.runs[0].last_batch, found.runs[1:]) == (3, [ChainRange(4, 9, LONGEST)])
    assert fitting.notes(found) == (
        "for batch sizes 1 to 9, the fastest chains that X takes: predicted no slower than the plan; "
        "batch sizes between planned ones use the chain for the smaller one",
    )


def tree_fitting(batches: tuple[int, ...], rates: st.Acceptance) -> Fitting:
    """Of a roofline, for trees of up to 12 nodes."""

    def latency_at(batch: int) -> st.Latency:
        return st.Latency.roofline(gpu="h100_sxm", target="llama-3.1-8b", draft="eagle3-llama-3.1-8b", batch=batch)

    planned = schedule(rates, latency_at, batches, context=1024, max_budget=12)
    return Fitting(planned, "d")


@pytest.mark.parametrize("most_nodes", [None, lambda levels, branching: levels * branching], ids=["SGLang", "TRT-LLM"])
def test_one_envelope_for_all_batch_sizes_is_the_best_of_all(most_nodes: MostNodes | None) -> None:
    fitting = tree_fitting((1, 16, 64), RATES)
    found, shares = fitting.envelope(most_nodes), {}
    for levels, branching in itertools.product(range(1, 7), range(1, RATES.ranks + 1)):
        pool = branching + (levels - 1) * branching**2
        for nodes in range(1, min(12, pool if most_nodes is None else most_nodes(levels, branching)) + 1):
            seconds = [
                at.draft(1, 1024)
                + (levels - 1) * at.draft(branching, 1024)
                + at.target(nodes + 1, 1024)
                + at.overhead_seconds
                + levels * at.level_overhead_seconds
                for at in fitting.schedule.latencies
            ]
            plain = [at.plain(1024) for at in fitting.schedule.latencies]
            reached = grown(levels, branching, nodes) * np.array(plain) / seconds
            shares[levels, branching, nodes] = (reached / fitting.schedule.speedups).mean()
    assert fitting.share(found.speedups) == pytest.approx(max(shares.values()))
    limits = (found.runs.levels, found.runs.branching, found.runs.nodes)
    assert shares[limits] == pytest.approx(max(shares.values()))


def test_the_better_of_chains_and_one_envelope_is_taken_and_both_losses_are_said() -> None:
    fitting = tree_fitting((1, 4, 16), st.Acceptance.by_rank([0.5, 0.2, 0.1]))
    found, (taken, other) = fitting.better(at_most(12), "X takes")
    chains = fitting.chains(at_most(12), "X takes")
    assert isinstance(found.runs, Envelope)
    assert fitting.share(found.speedups) > fitting.share(chains.speedups)
    assert taken == f"for batch sizes 1 to 16, {found.what}: predicted {fitting.loss(found.speedups)}"
    assert other == f"not taken, the fastest chains that X takes: predicted {fitting.loss(chains.speedups)}"
    alone = tree_fitting((1, 16, 64), st.Acceptance.by_rank([0.5]))
    found, notes = alone.better(at_most(12), "X takes")
    assert not isinstance(found.runs, Envelope), "chains by batch size beat one length"
    assert notes[0].endswith("; batch sizes between planned ones use the chain for the smaller one")


def test_where_plain_decoding_is_fastest_there_is_nothing_to_run() -> None:
    fitting = fitting_of(0.2, [[0.6] * 4] * 3)
    for ask in (lambda: fitting.tree, lambda: fitting.chain, lambda: fitting.chains(at_most(4), "X takes")):
        with pytest.raises(PlainIsFastestError, match="beats plain decoding at"):
            ask()
    only_first = fitting_of(0.35, [[0.0] * 4, [3.0] * 4, [3.0] * 4])
    with pytest.raises(PlainIsFastestError, match="no chain that X takes beats plain decoding, on average"):
        only_first.chains(one_length, "X takes")


PLANNED = st.plan(st.Acceptance.by_rank([0.7]), st.Latency.constant(draft_seconds=0.1))


def test_names_that_engines_load() -> None:
    for draft, name in [
        ("llama-3.2-1b", "meta-llama/Llama-3.2-1B"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
        ("a/b/config.json", "a/b"),
        ("config.json", "."),
        ("a/eagle.json", "a"),
        ("owner/name", "owner/name"),
    ]:
        assert Fitting(PLANNED, draft).model == name


def test_ranges_and_envelopes_check_themselves() -> None:
    assert Envelope(levels=3, branching=2, nodes=10).pool == 2 + 2 * 4
    assert [r.length for r in checked_ranges(RANGES[::-1])] == [5, 3, 0]
    refuses(r"nodes must be at most .* = 10, .* levels=3 and branching=2, got 11", Envelope, 3, 2, 11)
    refuses("levels must be at least 1, got 0", Envelope, 0, 2, 1)
    refuses("nodes must be a whole number, got 1.5", Envelope, 1, 2, 1.5)
    refuses("last_batch must be at least 5, got 4, which is below first_batch", ChainRange, 5, 4, 1)
    refuses("length must be at least 0, got -1", ChainRange, 1, 4, -1)
    refuses("ranges must have a length above 0, got none", checked_ranges, [])
    refuses("must cover every batch size from 1 on once: .* start at 1", checked_ranges, [ChainRange(2, 4, 1)])
    refuses("should start at 5", checked_ranges, [ChainRange(1, 4, 1), ChainRange(4, 8, 0)])
    refuses("got none: run the engine without", checked_ranges, [ChainRange(1, 4, 0)])
