"""The time of the black-box test in batches of 256, beside the sampler that it tests, in the same run.

The sampler is rejection sampling of one drafted token and a bonus token, vectorised over the batch in NumPy. A million
runs of the test shall take less than 60 s.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from baselines import Beside

from spectheory.certify import Verdict, certify_step, markov_world
from spectheory.certify.rows import drawn

BATCH, RUNS, V = 256, 1_000_000, 4
WORLD = markov_world(V, 3)
P, Q = (np.array([*(of((token,)) for token in range(V)), of(())]) for of in (WORLD.p, WORLD.q))
LEFT = np.maximum(P - Q, 0)
SAMPLER = f"the sampler alone, {RUNS:,} rows"


def step(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    last = contexts[:, -1]
    token = drawn(Q[last], rng)
    is_accepted = rng.random(len(last)) * Q[last, token] < P[last, token]
    first = np.where(is_accepted, token, drawn(LEFT[last], rng))
    return np.stack([first, np.where(is_accepted, drawn(P[first], rng), -1)], axis=1)


def alone() -> None:
    """As many rows as the test runs, in as many calls."""
    rng, contexts = np.random.default_rng(0), np.full((BATCH, 1), -1)
    for _ in range(RUNS // BATCH):
        step(contexts, rng)
    step(contexts[: RUNS % BATCH], rng)


pytestmark = pytest.mark.benchmark(timer=process_time, max_time=1, min_rounds=2)


@pytest.mark.parametrize(("cycles", "contexts"), [(1, [()]), (2, [()])])
def test_a_million_runs(benchmark: Any, beside: Beside, cycles: int, contexts: Any) -> None:
    beside.baseline(SAMPLER, alone, 2)
    given = {"contexts": contexts, "length": 3, "cycles": cycles, "vocab_size": V, "batch": BATCH}
    call = lambda: certify_step(step, WORLD.p, **given, max_samples=RUNS, tv=1e-3)  # noqa: E731
    found = beside.time(benchmark, f"certify_step, {cycles} cycles, {RUNS:,} runs", call, SAMPLER)
    assert found.verdict is Verdict.UNDECIDED
    assert found.samples == RUNS
