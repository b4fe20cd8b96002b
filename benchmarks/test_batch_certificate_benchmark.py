"""The time of the black-box test in batches of 4,096, beside the sampler that it tests, in the same run.

The sampler is rejection sampling of one drafted token and a bonus token, vectorised over the batch in NumPy. A million
runs of the test shall take less than 60 s, and the certifier itself less than 2 us a run. The rows say the multiple of
the sampler's own time on as many rows, by the clock; the lines below them, what the certifier adds to a run, in
processor time, which other processes on the machine do not lengthen as much. In two cycles the sampler runs twice, on
fewer rows the second time, so that a little less is added than the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest
from beside import Beside

from spectheory.certify import StepCertificate, Verdict, certify_step, markov_world
from spectheory.certify.rows import drawn

BATCH, RUNS, V = 4096, 1_000_000, 4
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


def certificate(contexts: Any, cycles: int) -> StepCertificate:
    return certify_step(
        step, WORLD.p, contexts=contexts, length=3, cycles=cycles, vocab_size=V, batch=BATCH, max_samples=RUNS, tv=1e-3
    )


def processor_seconds(call: Callable[[], Any]) -> float:
    start = process_time()
    call()
    return process_time() - start


pytestmark = pytest.mark.benchmark(timer=process_time, max_time=1, min_rounds=2)


@pytest.mark.parametrize(("cycles", "contexts"), [(1, [()]), (1, [(), (2, 1)]), (2, [()])])
def test_a_million_runs(benchmark: Any, beside: Beside, report: list[str], cycles: int, contexts: Any) -> None:
    beside.baseline(SAMPLER, alone, 2)
    name = f"certify_step, {cycles} cycles, {len(contexts)} contexts, {RUNS:,} runs"
    found = beside.time(benchmark, name, lambda: certificate(contexts, cycles), SAMPLER)
    assert found.verdict is Verdict.UNDECIDED
    assert found.samples == RUNS
    spent, sampled = processor_seconds(lambda: certificate(contexts, cycles)), processor_seconds(alone)
    added = (spent - cycles * sampled) / RUNS * 1e6
    report.append(f"{'':60} {spent:.2f} s of processor time, {added:.2f} us a run more than the sampler alone")
