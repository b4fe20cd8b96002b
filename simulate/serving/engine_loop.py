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

from typing import NamedTuple

import numpy as np

from simulate.serving.rules import ACCEPTANCE_GATE, SURVIVAL_BUDGET, choose_tier, completed, remember
from spectheory.core.compiling import compiler

FULL, DONE, TIME_OVER, NO_TIER = range(4)
"""Why the loop returned: the buffer of steps is full, all requests are complete, the time is over, or a gap."""
ARRIVED, ADMITTED, PREFILLING, DECODING, COMPLETED, KV_USED, CONTEXT, ACCEPTED, PREFILLED, GAP_BATCH = range(10)
CYCLES, DRAFTED = range(10, 12)
"""Places in `State.counts`. Requests from `PREFILLING` up to `ADMITTED` read their prompts, `PREFILLED` tokens of the
first one are read. `CONTEXT` is the number of tokens in the caches of all decoding sequences."""
NOW, AREA = range(2)
"""Places in `State.clock`: the time, and the integral of the number of requests in the system up to it."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
UNIT = 2.0**-53
INLINED = compiler(cache=True, inline="always")


class Work(NamedTuple):
    """The requests: their arrival times, lengths, classes, and the keys of their uniform numbers, all (N,)."""

    arrivals: np.ndarray
    prompts: np.ndarray
    outputs: np.ndarray
    kinds: np.ndarray
    keys: np.ndarray


class Machine(NamedTuple):
    """The engine and its controller.

    Attributes:
        seconds: (tiers, batch sizes + 1, contexts, prefills) seconds of a step. Batch size 0 only reads prompts.
        contexts: (contexts,) float64, mean tokens in the cache of a decoding sequence.
        prefills: (prefills,) float64, tokens of prompts in a step, from 0 on.
        survival: (tiers, classes, depths + 1) probability that a cycle accepts at least 0, 1, ... tokens.
        kv_tokens: tokens that fit into the KV memory.
        reserve: tokens that each sequence reserves besides its own.
        max_sequences: most sequences that are admitted.
        batched_tokens: token budget of a step.
        nodes: (tiers,) drafted tokens of a cycle.
        concurrency: most requests in the system in a closed loop; 0 is an open one.
        until: the time at which the loop stops.
        rule, table, numbers: of the controller, see `rules`.
    """

    seconds: np.ndarray
    contexts: np.ndarray
    prefills: np.ndarray
    survival: np.ndarray
    kv_tokens: int
    reserve: int
    max_sequences: int
    batched_tokens: int
    nodes: np.ndarray
    concurrency: int
    until: float
    rule: int
    table: np.ndarray
    numbers: np.ndarray


class State(NamedTuple):
    """What changes from step to step.

    Attributes:
        clock: (2,) float64, see `NOW`.
        counts: (12,) int64, see `ARRIVED`.
        decoding: (max_sequences,) int64, the requests that decode; the first `counts[DECODING]` entries count.
        emitted: (N,) int64, tokens that each request has emitted.
        began: (N,) int64, decoding steps before the first one of each request.
        arrival, first, last: (N,) float64, times of the arrival, the first token and the last token of each request.
        memory: float64 memory of the controller.
        classes: (classes,) int64, decoding requests of each class.
        most: (classes,) int64, drafted tokens that are verified of each request of a class, by `choose_budget`.
        more: (classes,) int64, requests of a class of which one more is verified.
    """

    clock: np.ndarray
    counts: np.ndarray
    decoding: np.ndarray
    emitted: np.ndarray
    began: np.ndarray
    arrival: np.ndarray
    first: np.ndarray
    last: np.ndarray
    memory: np.ndarray
    classes: np.ndarray
    most: np.ndarray
    more: np.ndarray


class Steps(NamedTuple):
    """The steps of a run, all (S,).

    Attributes:
        end: time at which the step ends.
        seconds: its seconds.
        batch: sequences that decode; 0 in a step that only reads prompts.
        tier: the tier of the cycle; 0 where nothing decodes.
        emitted: tokens that the cycles emit, without the first tokens of requests.
        prompt: tokens of prompts that it reads.
    """

    end: np.ndarray
    seconds: np.ndarray
    batch: np.ndarray
    tier: np.ndarray
    emitted: np.ndarray
    prompt: np.ndarray


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
def keys_of(seed: int, count: int) -> np.ndarray:
    """(count,) keys of the uniform numbers of each request."""
    start, keys = hashed(np.uint64(seed) + GOLDEN), np.empty(count, np.uint64)
    for request in range(count):
        keys[request] = hashed(start + GOLDEN * np.uint64(request + 1))
    return keys


@compiler(cache=True)
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
    column, part = position_on(machine.prefills, prompt)
    beside = min(column + 1, len(machine.prefills) - 1)
    upper = table[row, column] + part * (table[row, beside] - table[row, column])
    lower = table[below, column] + part * (table[below, beside] - table[below, column])
    return upper + share * (lower - upper)


@compiler(cache=True)
def budget_seconds(machine: Machine, drafted: int, batch: int, context: float, prompt: int) -> float:
    """Seconds of a step that verifies `drafted` tokens of all sequences together, linear between whole means."""
    if batch == 0:
        return step_seconds(machine, 0, 0, context, prompt)
    tier, rest = drafted // batch, drafted % batch
    seconds = step_seconds(machine, tier, batch, context, prompt)
    if rest:
        seconds += rest / batch * (step_seconds(machine, tier + 1, batch, context, prompt) - seconds)
    return seconds


@compiler(cache=True)
def choose_budget(machine: Machine, state: State, batch: int, context: float) -> int:
    """How many drafted tokens of all sequences to verify, so that most tokens are emitted in a second.

    Each token of each sequence is worth its survival, the probability that it is accepted. The most valuable ones are
    verified first; among equals, the shallower tokens. Tokens of one class and depth are a group. Between the ends of
    groups and the multiples of the batch, emitted tokens and seconds are linear, so the best number is one of these.
    `state.most` and `state.more` get what is verified of each class.
    """
    survival, classes = machine.survival[-1], len(state.classes)
    deepest = survival.shape[1] - 1
    taken = np.zeros(classes, np.int64)
    count, emitted = 0, float(batch)
    best, best_rate = 0, batch / budget_seconds(machine, 0, batch, context, 0)
    state.most[:] = 0
    state.more[:] = 0
    while True:
        group, worth = -1, -1.0
        for one in range(classes):
            if state.classes[one] == 0 or taken[one] == deepest:
                continue
            here = survival[one, taken[one] + 1]
            if here > worth or (here == worth and taken[one] < taken[group]):
                group, worth = one, here
        if group < 0:
            return best
        end = count + state.classes[group]
        at = min((count // batch + 1) * batch, end)
        while True:
            rate = (emitted + (at - count) * worth) / budget_seconds(machine, at, batch, context, 0)
            if rate > best_rate:
                best, best_rate = at, rate
                state.most[:] = taken
                state.more[:] = 0
                if at == end:
                    state.most[group] += 1
                else:
                    state.more[group] = at - count
            if at == end:
                break
            at = min(at + batch, end)
        emitted += (end - count) * worth
        count = end
        taken[group] += 1


@compiler(cache=True)
def verified(state: State, kind: int) -> int:
    """Drafted tokens that are verified of the next request of a class; the first requests get those that are left."""
    if state.more[kind] > 0:
        state.more[kind] -= 1
        return state.most[kind] + 1
    return state.most[kind]


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
    counts, limited = state.counts, machine.rule == SURVIVAL_BUDGET
    survival = machine.survival[-1 if limited else tier]
    slot, total, kept = 0, 0, 0
    counts[CYCLES] += 1
    while slot < counts[DECODING]:
        request = state.decoding[slot]
        position = state.emitted[request]
        drawn = uniform(work.keys[request], position)  # pyright: ignore[reportArgumentType]
        row = survival[work.kinds[request]]
        accepted = 0
        for level in range(1, len(row)):
            accepted += drawn < row[level]
        if limited:
            accepted = min(accepted, verified(state, work.kinds[request]))  # pyright: ignore[reportArgumentType]
        left = work.outputs[request] - position
        emitted = min(accepted + 1, left)
        total += emitted
        kept += min(accepted, left)
        state.emitted[request] = position + emitted
        if emitted == left:
            counts[CONTEXT] -= work.prompts[request] + work.outputs[request] - 1
            complete(work, machine, state, request, now)
            state.classes[work.kinds[request]] -= 1
            counts[DECODING] -= 1
            state.decoding[slot] = state.decoding[counts[DECODING]]
            state.decoding[counts[DECODING]] = request
        else:
            slot += 1
    counts[CONTEXT] += total
    return total, kept


@compiler(cache=True)
def report_completed(work: Work, machine: Machine, state: State, batch: int) -> None:
    """Give the rule the requests that completed in `decode`, which has put them after the decoding ones."""
    for place in range(batch - 1, state.counts[DECODING] - 1, -1):
        request = state.decoding[place]
        cycles = state.counts[CYCLES] - state.began[request]
        completed(machine.rule, machine.numbers, state.memory, work.outputs[request], cycles)  # pyright: ignore[reportArgumentType]


@compiler(cache=True)
def report_single_tokens(work: Work, machine: Machine, state: State, first: int) -> None:
    """Give the rule requests from `first` on whose answer of one token has come with their prompt."""
    for request in range(first, state.counts[PREFILLING]):
        if work.outputs[request] == 1:
            completed(machine.rule, machine.numbers, state.memory, 1, 0)


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
        state.began[request] = counts[CYCLES]
        if work.outputs[request] == 1:
            complete(work, machine, state, request, now)
        else:
            state.decoding[counts[DECODING]] = request
            counts[DECODING] += 1
            state.classes[work.kinds[request]] += 1
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
        admit(work, machine, state)
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
            if machine.rule == SURVIVAL_BUDGET:
                drafted = choose_budget(machine, state, batch, context)
                tier = (drafted + batch - 1) // batch
            else:
                tier = choose_tier(machine.rule, machine.table, machine.numbers, state.memory, batch)
                drafted = batch * machine.nodes[tier]
            if tier < 0:
                counts[GAP_BATCH] = batch
                return step, NO_TIER
            left -= batch + drafted
        prompt = waiting_prompts(work, state, left) if left > 0 else 0
        if machine.rule == SURVIVAL_BUDGET:
            seconds = budget_seconds(machine, drafted, batch, context, prompt)
        else:
            seconds = step_seconds(machine, tier, batch, context, prompt)
        now = clock[NOW] + seconds
        clock[AREA] += seconds * (counts[ARRIVED] - counts[COMPLETED])
        clock[NOW] = now
        emitted = 0
        if batch:
            emitted, kept = decode(work, machine, state, tier, now)
            counts[ACCEPTED] += kept
            counts[DRAFTED] += drafted
            remember(machine.rule, machine.numbers, state.memory, batch, tier, kept, seconds)
        reading = counts[PREFILLING]
        if machine.rule == ACCEPTANCE_GATE:
            report_completed(work, machine, state, batch)
        prefill(work, machine, state, prompt, now)
        if machine.rule == ACCEPTANCE_GATE:
            report_single_tokens(work, machine, state, reading)
        steps.end[step], steps.seconds[step] = now, seconds
        steps.batch[step], steps.tier[step] = batch, tier
        steps.emitted[step], steps.prompt[step] = emitted, prompt
    return len(steps.end), FULL
