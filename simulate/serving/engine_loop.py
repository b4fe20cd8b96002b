"""The loop of a simulated engine, compiled: admit, decode, prefill, emit, one step after the other.

A step of the engine does this, in this order:

1. Requests that have arrived join the queue. The first ones of the queue are admitted while a sequence and the KV
   memory of the whole request (prompt, answer, and the largest draft) are free.
2. The controller chooses the tier of the step from the number of sequences that decode. Each of them runs one cycle.
   What is left of the token budget reads prompts, in the order of admission.
3. The clock advances by the seconds of the step.
4. Each decoding sequence emits its accepted tokens and one more, up to the end of its answer. A request whose prompt
   is complete emits its first token. Finished requests leave.

The number of accepted tokens of a cycle comes from a uniform number that is a hash of seed, request and the number of
tokens that the request has emitted, so that all schedules meet the same numbers at the same place of a text.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt64

from simulate.serving.engine_state import (
    ACCEPTED,
    ADMITTED,
    AREA,
    ARRIVED,
    COMPLETED,
    CONTEXT,
    DECODING,
    DONE,
    DRAFTED,
    FULL,
    GAP_BATCH,
    KV_USED,
    NO_TIER,
    NOW,
    PREFILLED,
    PREFILLING,
    TIME_OVER,
    Machine,
    State,
    Steps,
    Work,
)
from simulate.serving.rules import choose_tier, remember
from spectheory.core.machine import compiler

INLINED = compiler(cache=True, inline="always")
INNER = compiler(cache=True, no_cpython_wrapper=True)
"""For functions that only compiled functions call: the wrapper for calls from Python is not compiled."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
UNIT = 2.0**-53


@compiler(cache=True)
def hashed(value: np.uint64) -> np.uint64:
    """The hash of splitmix64."""
    value = (value ^ (value >> SHIFTS[0])) * FIRST
    value = (value ^ (value >> SHIFTS[1])) * SECOND
    return value ^ (value >> SHIFTS[2])


@compiler(cache=True)
def uniform(key: np.uint64, position: int) -> float:
    """The uniform number of a request at a position of its answer."""
    return float(hashed(key + GOLDEN * np.uint64(position)) >> SHIFTS[3]) * UNIT


@compiler(cache=True)
def keys_of(seed: int, count: int) -> UInt64[np.ndarray, " count"]:
    """Keys of the uniform numbers of each request."""
    start, keys = hashed(np.uint64(seed) + GOLDEN), np.empty(count, np.uint64)
    for request in range(count):
        keys[request] = hashed(start + GOLDEN * np.uint64(request + 1))
    return keys


@INNER
def position_on(grid: np.ndarray, at: float) -> tuple[int, float]:
    """The interval of `grid` that holds `at`, and the share of the interval before it; the ends beyond the grid."""
    if len(grid) == 1 or at <= grid[0]:
        return 0, 0.0
    interval = 0
    while interval < len(grid) - 2 and at > grid[interval + 1]:
        interval += 1
    return interval, min(1.0, (at - grid[interval]) / (grid[interval + 1] - grid[interval]))


@INLINED
def step_seconds(machine: Machine, tier: int, batch: int, context: float, prompt: int) -> float:
    """Seconds of a step, linear between the entries of the table."""
    table = machine.seconds[tier, batch]
    row, share = position_on(machine.contexts, context)
    below = min(row + 1, len(machine.contexts) - 1)
    if prompt == 0:
        return table[row, 0] + share * (table[below, 0] - table[row, 0])
    column, part = position_on(machine.prefills, float(prompt))
    beside = min(column + 1, len(machine.prefills) - 1)
    upper = table[row, column] + part * (table[row, beside] - table[row, column])
    lower = table[below, column] + part * (table[below, beside] - table[below, column])
    return upper + share * (lower - upper)


@INLINED
def arrive(work: Work, machine: Machine, state: State) -> None:
    """Let requests arrive, those of an open loop up to now."""
    clock, counts = state.clock, state.counts
    now, count = clock[NOW], counts[ARRIVED]
    if machine.concurrency:
        while count < len(work.outputs) and count - counts[COMPLETED] < machine.concurrency:
            state.arrival[count] = now
            count += 1
    else:
        while count < len(work.outputs) and work.arrivals[count] <= now:
            state.arrival[count] = work.arrivals[count]
            clock[AREA] += now - work.arrivals[count]
            count += 1
    counts[ARRIVED] = count


@INLINED
def admit(work: Work, machine: Machine, state: State) -> None:
    """Admit the first requests of the queue while sequences and KV memory are free."""
    counts = state.counts
    while counts[ADMITTED] < counts[ARRIVED]:
        request = counts[ADMITTED]
        needed = counts[KV_USED] + work.prompts[request] + work.outputs[request] + machine.reserve
        running = counts[DECODING] + request - counts[PREFILLING]
        if running >= machine.max_sequences or needed > machine.kv_tokens:
            return
        counts[KV_USED] = needed
        counts[ADMITTED] += 1


@INLINED
def complete(work: Work, machine: Machine, state: State, request: int, now: float) -> None:
    """A request emits its last token and leaves."""
    state.last[request] = now
    state.counts[COMPLETED] += 1
    state.counts[KV_USED] -= work.prompts[request] + work.outputs[request] + machine.reserve


@INLINED
def decode(work: Work, machine: Machine, state: State, tier: int, now: float) -> tuple[int, int]:
    """One cycle of every decoding sequence; returns the tokens emitted and the drafted tokens accepted."""
    counts, survival = state.counts, machine.survival[tier]
    slot, total, kept = 0, 0, 0
    while slot < counts[DECODING]:
        request = state.decoding[slot]
        position = state.emitted[request]
        drawn = uniform(work.keys[request], position)
        row = survival[work.kinds[request]]
        accepted = 0
        for level in range(1, len(row)):
            accepted += drawn < row[level]
        left = work.outputs[request] - position
        emitted = min(accepted + 1, left)
        total += emitted
        kept += min(accepted, left)
        state.emitted[request] = position + emitted
        if emitted == left:
            counts[CONTEXT] -= work.prompts[request] + work.outputs[request] - 1
            complete(work, machine, state, request, now)
            counts[DECODING] -= 1
            state.decoding[slot] = state.decoding[counts[DECODING]]
        else:
            slot += 1
    counts[CONTEXT] += total
    return total, kept


@INLINED
def prefill(work: Work, machine: Machine, state: State, tokens: int, now: float) -> None:
    """Read `tokens` of the prompts. A request whose prompt is complete emits its first token and decodes from now."""
    counts = state.counts
    while tokens > 0:
        request = counts[PREFILLING]
        read = min(tokens, work.prompts[request] - counts[PREFILLED])
        tokens -= read
        counts[PREFILLED] += read
        if counts[PREFILLED] < work.prompts[request]:
            return
        counts[PREFILLED] = 0
        counts[PREFILLING] += 1
        state.first[request] = now
        state.emitted[request] = 1
        if work.outputs[request] == 1:
            complete(work, machine, state, request, now)
        else:
            state.decoding[counts[DECODING]] = request
            counts[DECODING] += 1
            counts[CONTEXT] += work.prompts[request]


@INLINED
def waiting_prompts(work: Work, state: State, most: int) -> int:
    """Tokens of the prompts of admitted requests that are not read yet, at most `most`."""
    tokens = -state.counts[PREFILLED]
    for request in range(state.counts[PREFILLING], state.counts[ADMITTED]):
        tokens += work.prompts[request]
        if tokens >= most:
            return most
    return tokens


@compiler(cache=True)
def advance(work: Work, machine: Machine, state: State, steps: Steps) -> tuple[int, int]:
    """Run steps until the buffer `steps` is full or the run ends; returns the number of steps and why it ended."""
    clock, counts = state.clock, state.counts
    for step in range(len(steps.end)):
        arrive(work, machine, state)
        if counts[COMPLETED] == counts[ARRIVED]:
            if counts[ARRIVED] == len(work.outputs):
                return step, DONE
            clock[NOW] = work.arrivals[counts[ARRIVED]]
            arrive(work, machine, state)
        admit(work, machine, state)
        if clock[NOW] >= machine.until:
            return step, TIME_OVER
        batch, tier, drafted = counts[DECODING], 0, 0
        left, context = machine.batched_tokens, float(counts[PREFILLED])
        if batch:
            context = counts[CONTEXT] / batch
            tier = choose_tier(machine.rule, machine.table, machine.numbers, state.memory, batch)
            if tier < 0:
                counts[GAP_BATCH] = batch
                return step, NO_TIER
            drafted = batch * machine.nodes[tier]
            left -= batch + drafted
        prompt = waiting_prompts(work, state, left) if left > 0 else 0
        seconds = step_seconds(machine, tier, batch, context, prompt)
        now = clock[NOW] + seconds
        clock[AREA] += seconds * (counts[ARRIVED] - counts[COMPLETED])
        clock[NOW] = now
        emitted = 0
        if batch:
            emitted, kept = decode(work, machine, state, tier, now)
            counts[ACCEPTED] += kept
            counts[DRAFTED] += drafted
            remember(machine.rule, machine.numbers, state.memory, batch, tier, kept)
        prefill(work, machine, state, prompt, now)
        steps.end[step], steps.seconds[step] = now, seconds
        steps.batch[step], steps.tier[step] = batch, tier
        steps.emitted[step], steps.prompt[step] = emitted, prompt
    return len(steps.end), FULL
