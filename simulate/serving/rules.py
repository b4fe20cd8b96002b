"""The rules by which a controller chooses the tier of a step, compiled into the loop of the engine.

A rule has a number and a branch in `choose_tier`, and, if it remembers anything, a branch in `remember`. They see the
controller's own arrays: `table` (tiers, batch sizes + 1) of tier indices, `numbers` of parameters, and `memory`, which
starts at the values that the controller gives. Its first entry is the last tier.

- `BY_TABLE`: the tier is `table[last tier, batch]`. A schedule by batch has equal rows; different rows are a
  hysteresis.
- `BY_LAST_BATCH`: the same with the batch size of the last decoding step, which is remembered second, 0 at the start.
- `MOVING_AVERAGE`: SGLang's adaptive speculation, see `sglang` for the rule in words. Each range of batch sizes has a
  slot: its own candidate lengths, the one that it drafts now, and its own average of accepted tokens. A slot is `SLOT`
  numbers and its candidates, and remembers its place among the candidates, the average, and the batches so far.
  `numbers` holds the number of slots, the largest number of candidates, the number of batch sizes, then for each batch
  size from 0 on its slot, then the slots. A slot holds the parameters below, the lengths of its candidates and their
  tiers, both padded to the largest number of candidates.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from spectheory.core.machine import compiler

BY_TABLE, BY_LAST_BATCH, MOVING_AVERAGE = range(3)
GAP = -1
"""The controller has no tier for this batch size."""
HEADER = 3
SLOT = 7
CANDIDATES, ALPHA, WARM_UP, INTERVAL, DOWN, UP, CEILING = range(SLOT)
"""The parameters of a slot: number of candidates, weight of a new batch in the average, batches before the first
decision, batches between decisions, two hystereses, and the factor of the ceiling, of which 0 is none."""
PLACE, MEAN, BATCHES = range(3)
"""What a slot remembers."""


@compiler(cache=True)
def slot_of(numbers: np.ndarray, batch: int) -> int:
    """The slot of a batch size; batch sizes above the largest known one have the slot of the largest."""
    return int(numbers[HEADER + min(batch, int(numbers[2]) - 1)])


@compiler(cache=True)
def parameters(numbers: np.ndarray, slot: int) -> np.ndarray:
    """The numbers of a slot."""
    size = SLOT + 2 * int(numbers[1])
    start = HEADER + int(numbers[2]) + slot * size
    return numbers[start : start + size]


@compiler(cache=True)
def tier_of_slot(numbers: np.ndarray, memory: np.ndarray, batch: int) -> int:
    """The tier that the slot of a batch size drafts now."""
    slot = slot_of(numbers, batch)
    width = int(numbers[1])
    return int(parameters(numbers, slot)[SLOT + width + int(memory[1 + 3 * slot + PLACE])])


@compiler(cache=True)
def record_batch(numbers: np.ndarray, memory: np.ndarray, batch: int, accepted: float) -> None:
    """Take a batch of `accepted` drafted tokens per sequence into the average, and decide if it is time to."""
    slot = slot_of(numbers, batch)
    given, state = parameters(numbers, slot), memory[1 + 3 * slot : 4 + 3 * slot]
    lengths = given[SLOT : SLOT + int(given[CANDIDATES])]
    if lengths[int(state[PLACE])] > 0:
        state[MEAN] = (1 - given[ALPHA]) * state[MEAN] + given[ALPHA] * accepted
    state[BATCHES] += 1
    after = state[BATCHES] - given[WARM_UP]
    if after > 0 and after % given[INTERVAL] == 0:
        state[PLACE] = next_place(given, state, lengths)


@compiler(cache=True)
def next_place(given: np.ndarray, state: np.ndarray, lengths: np.ndarray) -> int:
    """The place among the candidates that a decision chooses. It may give the average of a slot a start."""
    last = place = int(state[PLACE])
    if lengths[place] == 0:
        place = min(place + 1, len(lengths) - 1)
        if lengths[place] > 0 and state[MEAN] < 0:
            state[MEAN] = lengths[place] - 1
        return place
    while place > 0 and state[MEAN] <= given[DOWN] + max(0.5, lengths[place - 1] - 0.5):
        place -= 1
    if place == last:
        while place < len(lengths) - 1 and state[MEAN] > lengths[place] - 0.5 + given[UP]:
            place += 1
    if given[CEILING] > 0 and place <= last:
        most = max(1, ceil(state[MEAN] * given[CEILING]))
        while place > 0 and lengths[place] > most:
            place -= 1
    return place


@compiler(cache=True)
def choose_tier(rule: int, table: np.ndarray, numbers: np.ndarray, memory: np.ndarray, batch: int) -> int:
    """The index of the tier of the next step, in which `batch` sequences decode; `GAP` if there is none."""
    if rule == BY_LAST_BATCH:
        return table[int(memory[0]), int(memory[1]) if memory[1] else batch]
    if rule == MOVING_AVERAGE:
        return tier_of_slot(numbers, memory, batch)
    return table[int(memory[0]), batch]


@compiler(cache=True)
def remember(rule: int, numbers: np.ndarray, memory: np.ndarray, batch: int, tier: int, accepted: int) -> None:
    """Change `memory` after a step of a tier with `batch` sequences, which accepted `accepted` drafted tokens."""
    memory[0] = tier
    if rule == BY_LAST_BATCH:
        memory[1] = batch
    elif rule == MOVING_AVERAGE:
        record_batch(numbers, memory, batch, accepted / batch)
