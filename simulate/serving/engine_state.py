"""The arrays of the engine loop: requests, engine, state and steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int, Int64, UInt64

FULL, DONE, TIME_OVER, NO_TIER = range(4)
"""Why the loop returned: the buffer of steps is full, all requests are complete, the time is over, or a gap."""
COUNTS = 11
ARRIVED, ADMITTED, PREFILLING, DECODING, COMPLETED, KV_USED, CONTEXT, ACCEPTED, PREFILLED, GAP_BATCH, DRAFTED = range(
    COUNTS
)
"""Places in `State.counts`. Requests from `PREFILLING` up to `ADMITTED` read their prompts, `PREFILLED` tokens of the
first one are read. `CONTEXT` is the number of tokens in the caches of all decoding sequences."""
NOW, AREA = range(2)
"""Places in `State.clock`: the time, and the integral of the number of requests in the system up to it."""


class Work(NamedTuple):
    """The requests: their arrival times, lengths, classes, and the keys of their uniform numbers."""

    arrivals: Float[np.ndarray, " requests"]
    prompts: Int[np.ndarray, " requests"]
    outputs: Int[np.ndarray, " requests"]
    kinds: Int[np.ndarray, " requests"]
    keys: UInt64[np.ndarray, " requests"]


class Machine(NamedTuple):
    """The engine and its controller.

    Attributes:
        seconds: seconds of a step. Batch size 0 only reads prompts.
        contexts: mean tokens in the cache of a decoding sequence.
        prefills: tokens of prompts in a step, from 0 on.
        survival: probability that a cycle accepts at least 0, 1, ... tokens.
        kv_tokens: tokens that fit into the KV memory.
        reserve: tokens that each sequence reserves besides its own.
        max_sequences: most sequences that are admitted.
        batched_tokens: token budget of a step.
        nodes: drafted tokens of a cycle.
        concurrency: most requests in the system in a closed loop; 0 is an open one.
        until: the time at which the loop stops.
        rule, table, numbers: of the controller, see `rules`.
    """

    seconds: Float[np.ndarray, "tiers batches contexts prefills"]
    contexts: Float[np.ndarray, " contexts"]
    prefills: Float[np.ndarray, " prefills"]
    survival: Float[np.ndarray, "tiers classes lengths"]
    kv_tokens: int
    reserve: int
    max_sequences: int
    batched_tokens: int
    nodes: Int[np.ndarray, " tiers"]
    concurrency: int
    until: float
    rule: int
    table: Int[np.ndarray, "tiers batches"]
    numbers: Float[np.ndarray, " numbers"]


class State(NamedTuple):
    """What changes from step to step.

    Attributes:
        clock: see `NOW`.
        counts: see `ARRIVED`.
        decoding: the requests that decode; the first `counts[DECODING]` entries count.
        emitted: tokens that each request has emitted.
        arrival, first, last: times of the arrival, the first token and the last token of each request.
        memory: memory of the controller.
    """

    clock: Float64[np.ndarray, 2]
    counts: Int64[np.ndarray, 11]
    decoding: Int64[np.ndarray, " sequences"]
    emitted: Int64[np.ndarray, " requests"]
    arrival: Float64[np.ndarray, " requests"]
    first: Float64[np.ndarray, " requests"]
    last: Float64[np.ndarray, " requests"]
    memory: Float64[np.ndarray, " memory"]


class Steps(NamedTuple):
    """The steps of a run.

    Attributes:
        end: time at which the step ends.
        seconds: its seconds.
        batch: sequences that decode; 0 in a step that only reads prompts.
        tier: the tier of the cycle; 0 where nothing decodes.
        emitted: tokens that the cycles emit, without the first tokens of requests.
        prompt: tokens of prompts that it reads.
    """

    end: Float64[np.ndarray, " steps"]
    seconds: Float64[np.ndarray, " steps"]
    batch: Int64[np.ndarray, " steps"]
    tier: Int64[np.ndarray, " steps"]
    emitted: Int64[np.ndarray, " steps"]
    prompt: Int64[np.ndarray, " steps"]
