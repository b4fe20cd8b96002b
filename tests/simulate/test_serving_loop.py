"""The compiled loop does what the plain rendering of the same engine does, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulate import Controller, Requests, Server, StepTimes, Tier
from simulate.serving.engine_loop import keys_of, uniform
from simulate.serving.engine_state import ACCEPTED
from simulate.serving.server import _simulated, prepared
from spectheory import Acceptance, Latency, Tree
from tests.simulate import plain_engine
from tests.simulate.plain_engine import PlainEngine

RATES = [Acceptance.by_rank([0.7, 0.1]), Acceptance.by_rank([0.3, 0.2])]
TREES = [Tree.chain(0), Tree.chain(4), Tree([-1, 0, 0, 1])]


def latency(batch: int, context: int) -> Latency:
    """Times that depend on everything: tokens, batch and context."""
    tokens = np.array([1, 4, 9, 40])
    target = 1e-2 + 1e-4 * batch * np.sqrt(tokens) + 1e-7 * batch * context
    draft = 1e-3 + 1e-5 * batch * tokens
    return Latency(tokens, np.array([context]), target[None], draft[None], overhead_seconds=2e-3)


def times(batches: tuple[int, ...] = (1, 2, 5, 9, 16), contexts: tuple[int, ...] = (0, 60, 400)) -> StepTimes:
    rows = tuple(tuple(latency(batch, context) for context in contexts) for batch in batches)
    return StepTimes(np.array(batches), np.array(contexts), rows)


def load(count: int, rate: float, seed: int, **options: Any) -> Requests:
    rng = np.random.default_rng(seed)
    arrivals = np.zeros(count) if "concurrency" in options else rng.exponential(1 / rate, count).cumsum()
    lengths = rng.integers(1, 300, count), rng.integers(1, 60, count), rng.integers(0, 2, count)
    return Requests(arrivals, *lengths, **options)


def switching(sequences: int) -> Controller:
    """A hysteresis: which of three tiers runs depends on the batch and on the last tier."""
    sizes = np.arange(sequences + 1)
    rows = np.array([np.where(sizes < low, 1, np.where(sizes < high, 2, 0)) for low, high in ((2, 3), (3, 3), (1, 3))])
    return Controller("switching", tuple(Tier.of(tree, RATES) for tree in TREES), rows)


CASES = {
    "few requests": (load(60, 5, 1), {}, np.inf),
    "a queue, by the limit of sequences": (load(80, 40, 2), {"max_sequences": 6}, np.inf),
    "a queue, by the memory": (load(60, 40, 3), {"kv_tokens": 800}, np.inf),
    "prompts in small pieces": (load(50, 20, 4), {"batched_tokens": 24}, np.inf),
    "a closed loop": (load(60, 0, 5, concurrency=3), {}, np.inf),
    "stopped by the time": (load(80, 40, 6), {"max_sequences": 3}, 2.0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_loop_is_the_plain_engine(name: str) -> None:
    requests, limits, until = CASES[name]
    server = Server(times(), **limits)
    controller = switching(server.sequences)
    work, machine, _ = prepared(controller, requests, server, 11, until)
    plain = PlainEngine(work, machine, 11, requests.arrival_seconds[0]).run()
    state, steps = _simulated(controller, requests, server, 11, until)
    columns = (steps.end, steps.batch, steps.tier, steps.emitted, steps.prompt)
    assert [*zip(*(column.tolist() for column in columns), strict=True)] == plain.steps
    done = {one["number"]: (one["arrival"], one["first"], one["last"]) for one in plain.finished}
    assert {i: (state.arrival[i], state.first[i], state.last[i]) for i in np.flatnonzero(state.last >= 0)} == done
    assert plain.accepted == state.counts[ACCEPTED]
    assert len({tier for _, batch, tier, _, _ in plain.steps if batch}) == 3, "the case runs every tier"
    assert bool(plain.coming or plain.queue or plain.decoding) == (until < np.inf)


def test_uniform_numbers_are_those_of_splitmix() -> None:
    keys = keys_of(3, 2)
    assert [uniform(keys[1], position) for position in range(4)] == [plain_engine.uniform(3, 1, p) for p in range(4)]
    first = np.array([uniform(key, 5) for key in keys_of(0, 20_000)])
    assert abs(first.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 20_000)  # 4 standard errors: 6e-5 by chance
