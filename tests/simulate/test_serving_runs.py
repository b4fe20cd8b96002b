"""Serving runs as records, their figures and differences, the step times, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from simulate import Controller, Requests, Server, StepTimes, Tier, compare_schedules, serve
from simulate.serving import schedules_in
from simulate.serving.engine_loop import step_seconds
from simulate.serving.server import prepared
from spectheory.results.serving import Figures, batch_means
from tests.helpers import known, refuses

RATES = st.Acceptance.by_rank([0.7])
CHAIN = st.Tree.chain(3)
STEP = 2.0**-6


def steady(batch: int) -> st.Latency:
    """A forward of n tokens of each of `batch` sequences takes 10 ms and 10 us a token of the batch."""
    tokens = np.array([1, 2, 64])
    return st.Latency(
        tokens,
        np.array([0, 1000]),
        np.array([0.01 + 1e-5 * batch * tokens, 0.02 + 1e-5 * batch * tokens]),
        np.array([1e-3 + 1e-6 * batch * tokens] * 2),
        overhead_seconds=2e-3,
        plain_overhead_seconds=1e-3,
    )


def scheduled(batches: range) -> st.Schedule:
    return st.schedule(RATES, steady, list(batches), context=500, max_budget=6)


def load(count: int = 200, rate: float = 10.0, **options: Any) -> Requests:
    arrivals = np.random.default_rng(0).exponential(1 / rate, count).cumsum()
    return Requests(arrivals, np.full(count, 100), np.full(count, 20), **options)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = serve(scheduled(range(1, 33)), load(), seed=3, slo_tpot_seconds=0.02, keep_steps=True)
    run.save(tmp_path / "run.json")
    again = st.load(tmp_path / "run.json")
    assert isinstance(again, st.results.serving.ServingRun)
    assert again.to_dict() == run.to_dict()
    assert (again.goodput, again.tpot, again.trees) == (run.goodput, run.tpot, run.trees)
    assert (serve(scheduled(range(1, 33)), load(), seed=4).completion_seconds != run.completion_seconds).any()


def test_the_figures_of_a_run_by_hand() -> None:
    """Two requests on one sequence, steps of 1/64 s, without drafts: 3 tokens, and 1 token after a wait."""
    server = Server.of(st.Latency.constant(target_seconds=STEP))
    requests = Requests(np.array([0.0, STEP]), np.array([5, 5]), np.array([3, 1]))
    run = serve(None, requests, server=server, slo_ttft_seconds=2 * STEP, slo_tpot_seconds=STEP)
    assert (run.ttft_seconds / STEP).tolist() == [1, 3]
    assert (run.end_to_end_seconds / STEP).tolist() == [3, 3]
    assert run.tpot_seconds[0] == STEP
    assert np.isnan(run.tpot_seconds[1])
    assert run.meets_slo.tolist() == [True, False]
    assert (run.seconds, run.busy_seconds, run.decode_seconds) == (4 * STEP, 4 * STEP, 2 * STEP)
    assert (run.prompt_steps, run.tier_steps.tolist(), run.drafted, run.unfinished) == (2, [2], 0, 0)
    assert run.tokens_per_second == 4 / (4 * STEP)
    assert run.goodput == 1 / (4 * STEP)
    assert run.ttft == Figures(2 * STEP, STEP, 3 * STEP, 3 * STEP)
    assert run.inter_token_seconds == Figures(STEP, STEP, STEP, STEP)


def test_a_cycle_emits_its_tokens_together() -> None:
    """All drafts are accepted: 9 tokens after the first one in cycles of 4, 4 and 1, at gaps of a step or of 0."""
    server = Server.of(st.Latency.constant(target_seconds=STEP))
    run = serve(
        CHAIN, Requests(np.zeros(1), np.array([1]), np.array([10])), server=server, rates=st.Acceptance.by_rank([1.0])
    )
    assert run.tier_steps.tolist() == [3]
    assert (run.drafted, run.accepted, run.wasted) == (9, 7, 2)
    assert run.tpot_seconds.tolist() == [3 * STEP / 9]
    gaps = known(run.inter_token_seconds)
    assert (gaps.mean, gaps.p50, gaps.p90) == (pytest.approx(3 * STEP / 9), 0.0, STEP)


@pytest.mark.parametrize("tree", [st.Tree.chain(0), CHAIN, st.Tree([-1, 0, 0, 1])])
def test_step_times_are_those_of_the_latency(tree: st.Tree) -> None:
    """At every batch, context and number of prompt tokens, because these latencies are linear in each."""
    batches = [1, 2, 4, 9]
    server = Server(StepTimes.by_batch(batches, [steady(batch) for batch in batches]), batched_tokens=500)
    tier = Tier.of(tree, RATES)
    _, machine, _ = prepared(Controller.always(tier, 9), load(), server, 0, np.inf)
    for batch, context, prompt in [(1, 0, 0), (4, 1000, 0), (7, 250, 0), (9, 500, 77), (2, 900, 500), (5, 10, 300)]:
        at, tokens = steady(batch), tree.budget + 1
        expected = at.cycle(tree, context) - at.target(tokens, context)
        expected += 0.01 + context * 1e-5 + 1e-5 * (batch * tokens + prompt)
        expected += 1e-6 * prompt if tree.budget else 0
        assert step_seconds(machine, 0, batch, context, prompt) == pytest.approx(expected, rel=1e-12)
    alone = 0.01 + 200 * 1e-5 + 300 * 1e-5 + 1e-3 + (1e-3 + 300e-6 if tree.budget else 0)
    assert step_seconds(machine, 0, 0, 200.0, 300) == pytest.approx(alone, rel=1e-12)


def test_computed_times_are_those_of_the_deployment_and_know_the_memory() -> None:
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3", context=1024)
    times = StepTimes.computed(place, most_sequences=24)
    for batch in (1, 7, 22):
        (row,) = np.flatnonzero(times.batches == batch)
        (column,) = np.flatnonzero(times.contexts == 1024)
        expected = place.latency(batch).cycle(CHAIN, 1024)
        assert times.latencies[row][column].cycle(CHAIN, 1024) == pytest.approx(expected, rel=1e-12)
    tokens = known(times.kv_tokens)
    replace(place, context=tokens // 4).latency(4)
    refuses("offers 72 GB", replace(place, context=tokens // 4 + 1).latency, 4)


def test_schedules_are_compared_on_the_same_requests() -> None:
    schedule = scheduled(range(1, 33))
    found = compare_schedules(schedules_in(schedule), load(400, 20), seed=1, slo_tpot_seconds=0.012)
    off, other = found.runs[:2]
    assert (off.name, other.name) == ("off", "schedule")
    one = next(one for one in found.differences if (one.name, one.figure) == ("schedule", "tpot_seconds"))
    assert one.mean == pytest.approx(other.tpot_seconds.mean() - off.tpot_seconds.mean())
    assert known(one.low) < one.mean < known(one.high) < 0
    alone = serve(schedule, load(400, 20), seed=1)
    np.testing.assert_array_equal(alone.completion_seconds, other.completion_seconds)
    assert st.results.serving.ServingComparison.from_dict(found.to_dict()).to_dict() == found.to_dict()
    for run in found.runs:
        assert run.stability_limit is not None
        assert known(run.settled_batches)[0] == pytest.approx(run.batch_seconds / run.seconds, rel=0.15)


@pytest.mark.deep
def test_batch_means_cover_the_mean() -> None:
    """Of 2000 intervals of an autoregressive series, 95% contain its mean; 3 points are 6 standard errors."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(2000):
        noise = rng.normal(size=4000)
        series = np.convolve(noise, 0.5 ** np.arange(12))[:4000]
        _, low, high = batch_means(series)
        held += low < 0 < high  # type: ignore[operator]
    assert abs(held / 2000 - 0.95) < 0.03


def test_what_cannot_be_simulated_is_refused() -> None:
    made, gaps = scheduled(range(1, 9)), st.schedule(RATES, steady, [1, 2, 8], context=500)
    one, two = Server.of(steady(1)), load(kinds=np.arange(200) % 2)
    small = Server.of(made, kv_tokens=120)
    refuses("kv_tokens must hold each request, but request 0 needs 12", serve, made, load(), server=small)
    refuses("no entry for batch size 5, which this load reaches: plan every batch", serve, gaps, load(rate=60))
    refuses("server must be given", serve, CHAIN, load(), rates=RATES)
    refuses("batches must increase from 1 on, got", serve, scheduled(range(2, 9)), load())
    refuses("max_sequences must be at most 8", Server.of, made, max_sequences=9)
    refuses("2 classes of acceptance, but .* for 1", serve, CHAIN, two, server=one, rates=RATES)
    refuses("rates must be an Acceptance", Tier.of, CHAIN, [])
    refuses("survival must have a row of 4 probabilities", Tier, CHAIN, np.array([[1, 0.5, 0.6, 0]]))
    refuses("until_seconds must be", serve, None, load(), server=one, until_seconds=float("nan"))
    refuses("table must have a row of tier indices", Controller, "gone", (Tier.off(),), np.array([[0, 1]]))


def test_a_loop_that_reaches_no_gap_is_served() -> None:
    """A schedule for the batch sizes 1, 2 and 8 serves a closed loop of 2 requests."""
    schedule = st.schedule(RATES, steady, [1, 2, 8], context=500)
    requests = Requests.closed(2, [5] * 9, [5] * 9)
    assert len(serve(schedule, requests)) == 9
    off, gaps = compare_schedules({"off": None, "gaps": schedule}, requests).runs
    assert off.stability_limit is not None
    assert gaps.stability_limit is None


def test_computed_times_of_a_schedule_are_computed_at_other_contexts_too() -> None:
    place = st.Deployment("h100_sxm", "llama-3.1-8b", "eagle3", context=3000)
    made = place.schedule(st.Acceptance.by_rank([0.7]), range(1, 5), max_budget=4)
    times, fixed = StepTimes.of(made), StepTimes.by_batch(made.batches, made.latencies)
    assert len(times.contexts) > 1
    assert len(fixed.contexts) == 1
    tiers = [Tier.off()]
    several, contexts, _ = times.table(tiers, 4, 64)
    one, _, _ = fixed.table(tiers, 4, 64)
    assert (np.diff(several[0, 1:, :, 0], axis=1) > 0).all()
    at_context = [np.interp(3000, contexts, row) for row in several[0, 1:, :, 0]]
    assert at_context == pytest.approx(one[0, 1:, 0, 0].tolist(), rel=1e-9)
