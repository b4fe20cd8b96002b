"""The serving loop beside the same engine in plain Python, and an hour of ten requests a second.

Both serve the first 200 requests of the hour and are checked against each other. The plain engine is the one of the
tests, written to be read. Steps per second are by the processor time of the loop's one thread.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from simulate import Controller, Requests, Server, StepTimes, Tier, serve
from simulate.serving.engine_loop import advance
from simulate.serving.engine_state import DONE, Steps
from simulate.serving.server import prepared
from spectheory import Acceptance, Deployment, Tree
from tests.simulate.plain_engine import PlainEngine

RATES = Acceptance.by_rank([0.72])
CHAINS = (0, 3, 12)
pytestmark = pytest.mark.benchmark(max_time=1.0, min_rounds=5)


def hour(count: int = 36_000) -> Requests:
    """The first requests of an hour of Poisson arrivals at ten a second: prompts of 512 tokens, answers of 256."""
    arrivals = np.random.default_rng(1).exponential(0.1, count).cumsum()
    return Requests(arrivals, np.full(count, 512), np.full(count, 256))


@pytest.fixture(scope="module")
def server() -> Server:
    return Server(StepTimes.computed(Deployment("h100_sxm", "llama-3.1-8b", "eagle3")))


def looped(length: int, requests: Requests, server: Server) -> tuple[Any, Any, int, float]:
    """The last state, the steps, their number, and the processor seconds of the loop alone."""
    controller = Controller.always(Tier.of(Tree.chain(length), RATES), server.sequences)
    work, machine, state = prepared(controller, requests, server, 0, np.inf)
    most = 20 * len(requests) + 100
    steps = Steps(*(np.empty(most, kind) for kind in ("f8", "f8", "i8", "i8", "i8", "i8")))
    start = process_time()
    count, ended = advance(work, machine, state, steps)
    seconds = process_time() - start
    assert ended == DONE
    return state, steps, count, seconds


def plainly(length: int, requests: Requests, server: Server) -> tuple[PlainEngine, float]:
    """The plain engine after the requests, and its processor seconds."""
    controller = Controller.always(Tier.of(Tree.chain(length), RATES), server.sequences)
    work, machine, _ = prepared(controller, requests, server, 0, np.inf)
    engine = PlainEngine(work, machine, 0, requests.arrival_seconds[0])
    start = process_time()
    engine.run()
    return engine, process_time() - start


@pytest.mark.parametrize("length", CHAINS)
def test_loop(benchmark: BenchmarkFixture, report: list[str], server: Server, length: int) -> None:
    few, name = hour(200), f"chain of {length}" if length else "no drafts"
    engine, plain = min((plainly(length, few, server) for _ in range(3)), key=lambda run: run[1])
    looped(length, few, server)
    state, _, count, seconds = min((looped(length, few, server) for _ in range(20)), key=lambda run: run[3])
    assert {one["number"]: one["last"] for one in engine.finished} == dict(enumerate(state.last.tolist()))
    report.append(f"{name}, {count:,} steps: {1e3 * seconds:.2f} ms, {seconds / plain:.5f} x plain Python")
    run = benchmark(lambda: serve(Tree.chain(length), hour(), server=server, rates=RATES))
    if benchmark.stats is not None:
        report.append(f"{name}, an hour, with tables and record: {benchmark.stats.stats.min:.2f} s")
    assert len(run) == 36_000
