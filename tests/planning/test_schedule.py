"""Schedules: each batch size has the same answer as a plan of its own, and equal answers are merged into ranges."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spectheory as st
from spectheory.hardware.engine_costs import EngineCosts
from spectheory.planning.advice import advice
from spectheory.planning.confidence import spans
from spectheory.planning.planner import schedule
from spectheory.planning.schedule_record import Schedule
from spectheory.report.schedules import schedule_rows
from tests.helpers import known, refuses

SHAPES = Path(st.__file__).parent / "data" / "models"
RATES = st.Acceptance.by_rank([0.6, 0.15, 0.06])
TOKENS = np.array([1, 2, 4, 8, 16, 32, 64])
SIZES = {1024: [1, 16, 32, 128], 4096: [1, 16, 32], 16384: [1, 16]}
"""The batch sizes that fit into memory, by context."""


def latency_at(batch: int) -> st.Latency:
    """Forward times that grow with the tokens of all sequences, as those of a roofline do."""
    target, draft = 1 + 0.004 * TOKENS * batch, 0.06 + 0.001 * TOKENS * batch
    return st.Latency(TOKENS, np.array([512]), target[None], draft[None], overhead_seconds=0.05)


@pytest.fixture(scope="module")
def planned() -> Schedule:
    return schedule(RATES, latency_at, range(1, 400, 7), context=512, max_budget=24)


def test_each_batch_is_planned_as_alone(planned: Schedule) -> None:
    for row in (0, 5, 20, len(planned.batches) - 1):
        alone = st.plan(RATES, latency_at(int(planned.batches[row])), max_budget=24, context=512)
        assert planned.trees[planned.choice[row]] == alone.tree
        assert planned.speedups[row] == pytest.approx(alone.speedup, rel=1e-12)
        assert planned.option(row).answer == alone.answer
        cycle, tau = sum(planned.cycle_parts(row).values()), planned.taus[planned.choice[row]]
        assert cycle == pytest.approx(alone.cycle_seconds)
        assert planned.tokens_per_second[row] == pytest.approx(planned.batches[row] * tau / cycle)
        chains = st.plan(RATES, latency_at(int(planned.batches[row])), max_budget=24, max_fanout=1, context=512)
        assert planned.trees[planned.chain_choice[row]] == chains.tree
        assert planned.chain_speedups[row] == pytest.approx(chains.speedup)


def test_ranges_cover_every_batch_once(planned: Schedule) -> None:
    for ranges, choice in ((planned.ranges(), planned.choice), (planned.chain_ranges(), planned.chain_choice)):
        covered = [
            (batch, tree)
            for first, last, tree in ranges
            for batch in planned.batches[(planned.batches >= first) & (planned.batches <= last)]
        ]
        assert [batch for batch, _ in covered] == planned.batches.tolist()
        assert [tree for _, tree in covered] == [planned.trees[i] for i in choice]
        assert all(a[2] != b[2] for a, b in itertools.pairwise(ranges))


def test_a_range_of_contexts_is_merged_exactly_and_one_schedule_loses_least() -> None:
    """Each cell has the decision of each of its contexts alone, at the batch sizes that fit into memory."""
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3")
    planned = place.schedule(RATES, [1, 16, 32, 128], contexts=[*SIZES], max_budget=8)
    found = {at: replace(place, context=at).schedule(RATES, sizes, max_budget=8) for at, sizes in SIZES.items()}
    refuses("or a shorter context", replace(place, context=16384).latency, 32)
    worst, cells = dict.fromkeys(found, 0.0), known(planned.cells)
    for at, other in found.items():
        own = [cell for cell in cells if cell.contexts[0] <= at <= cell.contexts[1]]
        for row, batch in enumerate(other.batches):
            (cell,) = [one for one in own if one.batches[0] <= batch <= one.batches[1]]
            assert cell.tree == other.option(row).tree
            assert cell.speedups[0] <= other.speedups[row] <= cell.speedups[1]
            for kept, one in found.items():
                tree = one.option(min(row, len(one.batches) - 1)).tree
                there = other.latencies[row].speedup(tree, one.rates.tau(tree), at)
                worst[kept] = max(worst[kept], 1 - there / other.speedups[row])
    assert planned.context == min(worst, key=lambda at: worst[at])
    assert max(cell.lost for cell in cells) == pytest.approx(worst[planned.context])
    assert f"loses at most {worst[planned.context]:.1%} at 1,024 to 16,384 tokens" in planned.summary
    assert st.Schedule.from_dict(planned.to_dict()).cells == cells


def test_at_large_batches_nothing_is_drafted(planned: Schedule) -> None:
    answers = [planned.option(row).answer for row in range(len(planned.batches))]
    assert (answers[0], answers[-1]) == ("tree", "off")
    assert set(answers[answers.index("off") :]) == {"off"}
    assert all(planned.speedups[: answers.index("off")] > 1)


def test_a_mixture_of_experts_is_off_first_and_on_later() -> None:
    """A second token loads up to twice the experts at batch 1, but no further experts at batch 30.

    That is so if tokens choose their experts independently.
    """
    costs = replace(EngineCosts.of("vllm"), independent_share=1)
    head = json.loads((SHAPES / "eagle3-llama-3.1-8b.json").read_text())
    head |= {"vocab_size": 32000, "tokenizer": "Mistral v1"}

    def mixtral(batch: int) -> st.Latency:
        return st.Latency.roofline(gpu="h200_sxm", target="mixtral-8x7b", draft=head, batch=batch, costs=costs)

    rates = st.Acceptance.by_rank([0.45])
    planned = schedule(rates, mixtral, range(1, 41), context=1024, max_budget=8)
    assert (planned.option(0).answer, planned.option(39).answer) == ("off", "chain")


@pytest.mark.parametrize("pays", ["1111", "0000", "0100", "0101"])
def test_where_nothing_pays_the_distance_is_said(pays: str) -> None:
    def at_batch(batch: int) -> st.Latency:
        return st.Latency.constant(draft_seconds=0.01 if pays[batch - 1] == "1" else 0.8)

    planned = schedule(RATES, at_batch, range(1, 5), context=0, max_budget=2)
    assert [row[1] != "no draft" for row in schedule_rows(planned).rows] == [one == "1" for one in pays]
    off = [row + 1 for row, one in enumerate(pays) if one == "0"]
    assert [line for line in advice(planned) if line.startswith("Off at")] == [
        f"Off at batch {batch}: the best chain, of 1, is 0.89x as fast as plain decoding; chains pay from a rate of "
        "0.81 at all positions."
        for batch in off[:1]
    ]


def test_the_batch_sizes_at_which_drafts_may_not_pay_are_named() -> None:
    """Those at which 1 is between the ends of the band of the best chain, drafted or not."""
    planned = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3").schedule(
        st.Acceptance.by_rank([0.3]), [1, 2, 16, 64], max_budget=4
    )
    unsure = []
    for row, latency in enumerate(planned.latencies):
        taus = [sum(0.3**i for i in range(length + 1)) for length in range(1, 5)]
        speedups = [latency.speedup(st.Tree.chain(n), tau, 1024) for n, tau in enumerate(taus, start=1)]
        unsure.append(abs(np.log(max(speedups))) < known(planned.time_error(row)))
    assert {True, False} == set(unsure)
    (said,) = [line for line in advice(planned) if "may be faster or slower" in line]
    assert said.startswith(f"At batch {spans(planned.batches, np.array(unsure))}, drafts")


@pytest.mark.parametrize("batches", [[0, 1], [2, 2], [3, 1]])
def test_batches_must_increase(batches: list[int]) -> None:
    refuses("batches must be increasing whole numbers from 1 on", schedule, RATES, latency_at, batches, context=512)
    refuses("latency_at must return a Latency, got 2", schedule, RATES, lambda batch: batch, [2], context=512)
