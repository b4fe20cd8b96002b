"""Simulated serving against queueing theory: exactly where theory is exact, else within 4 standard errors.

A statistical test of this file fails by chance with probability below 7e-5, at a fixed seed.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from simulate import Controller, Requests, Server, StepTimes, Tier, self_consistent, serve
from simulate.serving.stability import mean_cycles
from spectheory import Acceptance, Deployment, Latency, Tree
from tests.helpers import known

RATES = Acceptance.by_rank([0.7])
CHAIN = Tree.chain(3)
STEP = 2.0**-6


def constant(sequences: int) -> Server:
    """A server whose steps all take `STEP` seconds."""
    latency = Latency.constant(target_seconds=STEP)
    sizes = [1] if sequences == 1 else [1, sequences]
    return Server(StepTimes.by_batch(sizes, [latency] * len(sizes)))


def poisson(count: int, rate: float, outputs: np.ndarray, seed: int = 0) -> Requests:
    arrivals = np.random.default_rng(seed).exponential(1 / rate, count).cumsum()
    return Requests(np.round(arrivals * 2**20) / 2**20, np.ones(count, np.int64), outputs)


def standard_error(values: np.ndarray, groups: int = 40) -> float:
    """By the means of groups of consecutive values."""
    means = np.array([group.mean() for group in np.array_split(values, groups)])
    return float(means.std(ddof=1) / np.sqrt(groups))


@pytest.mark.parametrize("tree", [Tree.chain(0), CHAIN])
def test_one_sequence_is_a_queue_with_one_server(tree: Tree) -> None:
    """Waits follow Lindley's recursion exactly, and have the mean of Pollaczek and Khinchine."""
    count, rate = 60_000, 4.0
    outputs = np.random.default_rng(1).geometric(1 / 8, count)
    run = serve(tree, poisson(count, rate, outputs), server=constant(1), rates=RATES, seed=2)
    starts = run.first_token_seconds - STEP
    waits, services = starts - run.arrival_seconds, run.completion_seconds - starts
    gaps, expected = np.diff(run.arrival_seconds), np.zeros(count)
    for row in range(1, count):
        expected[row] = max(0.0, expected[row - 1] + services[row - 1] - gaps[row - 1])
    np.testing.assert_array_equal(waits, expected)
    if tree.budget == 0:
        np.testing.assert_array_equal(services, outputs * STEP)
        mean, square = 8 * STEP, (8**2 + 8 * 7) * STEP**2
    else:
        mean, square = services.mean(), (services**2).mean()
    formula = rate * square / (2 * (1 - rate * mean))
    assert abs(waits.mean() - formula) < 4 * standard_error(waits)
    assert waits.mean() > 20 * standard_error(waits), "the test would see an error of a few percent"


def test_a_closed_loop_emits_tau_tokens_of_each_sequence_in_a_cycle() -> None:
    batch = 8
    requests = Requests.closed(batch, np.ones(batch, np.int64), np.full(batch, 10**6))
    run = serve(CHAIN, requests, server=constant(batch), rates=RATES, until_seconds=20_000 * STEP, keep_steps=True)
    cycles = run.drafted // CHAIN.budget
    assert run.tier_steps.tolist() == [20_000 - 1]
    assert cycles == batch * run.tier_steps[0]
    assert run.mean_batch == batch
    assert run.decode_seconds == run.tier_steps[0] * STEP
    chances = -np.diff(np.append(0.7 ** np.arange(4), 0))
    mean = chances @ np.arange(4)
    error = np.sqrt((chances @ np.arange(4) ** 2 - mean**2) / cycles)
    assert abs(run.accepted / cycles - mean) < 4 * error
    emitted = run.accepted + cycles
    assert emitted / run.decode_seconds == pytest.approx((1 + mean) * batch / STEP, rel=0.01)


@pytest.mark.parametrize(("tree", "sequences"), [(Tree.chain(0), 1), (CHAIN, 5)])
def test_littles_law_holds_in_each_run(tree: Tree, sequences: int) -> None:
    """The integral of the requests in the system, kept by the loop, is the sum of their times in it: exactly, because
    all times are multiples of 2**-20."""
    outputs = np.random.default_rng(4).integers(1, 30, 400)
    requests = poisson(400, 3.0 * sequences, outputs, 5)
    run = serve(tree, requests, server=constant(sequences), rates=RATES)
    assert run.request_seconds == run.end_to_end_seconds.sum()
    mean = run.request_seconds / run.seconds
    assert mean == pytest.approx(run.requests_per_second * run.end_to_end_seconds.mean(), rel=1e-12)
    closed = Requests.closed(7, requests.prompt_tokens, outputs)
    loop = serve(tree, closed, server=constant(sequences), rates=RATES)
    assert loop.request_seconds == loop.end_to_end_seconds.sum()
    assert loop.request_seconds <= 7 * loop.seconds


def test_the_mean_number_of_cycles_is_that_of_all_sequences_of_cycles() -> None:
    survival = np.array([1, 0.625, 0.25])
    chances = survival - np.append(survival[1:], 0)
    for output in range(1, 6):
        mean = 0.0
        for accepted in product(range(3), repeat=output):
            upto = np.cumsum([1, *(one + 1 for one in accepted)])
            mean += chances[list(accepted)].prod() * int(np.argmax(upto >= output))
        assert mean_cycles(survival, np.array([output]))[0] == pytest.approx(mean, rel=1e-12)


def test_a_schedule_by_batch_locks_in_after_a_burst() -> None:
    """Llama-3.1-8B with an EAGLE-3 head on an H100, by the roofline.

    A chain of 3 up to batch 32 keeps the batch at 25, but a burst of 100 requests leaves it at 53, without drafts.

    The arrivals are evenly spaced, so that nothing but the burst leads away from a stable batch.
    """
    h100 = Server(StepTimes.computed(Deployment("h100_sxm", "llama-3.1-8b", "eagle3"), most_sequences=128))
    count, rate = 3_000, 12.0
    rates = Acceptance.by_rank([0.765])
    chain = Tier.of(CHAIN, rates)
    schedule = Controller.up_to(chain, 32, h100.sequences)
    lengths = np.full(count, 128), np.full(count, 400)
    calm = Requests(np.arange(count) / rate, *lengths)
    burst = Requests(np.maximum(0, (np.arange(count) - 100) / rate), *lengths)
    low, unstable, high = self_consistent(schedule, calm, server=h100).points
    assert (low.is_stable, unstable.is_stable, high.is_stable) == (True, False, True)
    assert (low.tier, high.tier) == ("chain 3", "off")
    assert low.batch < 26
    assert high.batch > 52
    settled = self_consistent(schedule, calm, server=h100)
    assert settled.reached_from(1) == settled.reached_from(32) == low
    assert settled.reached_from(33) == settled.reached_from(128) == high
    slow = Requests(np.arange(10) / 100, np.full(10, 512), np.full(10, 400))
    assert self_consistent(None, slow, server=h100).points == (), "a queue that grows has no stable batch"

    def late_batch(controller: Controller | Tier, load: Requests) -> float:
        """Mean batch in the second half of the load."""
        run = serve(controller, load, server=h100, keep_steps=True)
        ends = known(run.step_seconds)
        late = (ends > count / rate / 2) & (ends < (count - 100) / rate)
        return float(np.average(known(run.step_batch)[late], weights=np.diff(ends, prepend=0)[late]))

    assert late_batch(schedule, calm) == pytest.approx(low.batch, rel=0.03)
    assert late_batch(schedule, burst) == pytest.approx(high.batch, rel=0.03)
    assert late_batch(chain, burst) == pytest.approx(low.batch, rel=0.03)
