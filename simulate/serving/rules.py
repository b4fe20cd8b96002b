"""The rules by which a controller chooses the tier of a step, compiled into the loop of the engine.

A rule has a number, a branch in `choose_tier` and, if it remembers anything, a branch in `remember` or in `completed`.
They see the controller's own arrays: `table` (tiers, batch sizes + 1) of tier indices, `numbers` of parameters, and
`memory`, which starts at the values that the controller gives. Its first entry is the last tier.
"""

from __future__ import annotations

import numpy as np

from simulate.serving.acceptance_gate import is_disabled, record_request
from simulate.serving.moving_average import record_batch, tier_of_slot
from spectheory.core.compiling import compiler

BY_TABLE, BY_LAST_BATCH, MOVING_AVERAGE, ACCEPTANCE_GATE, SURVIVAL_BUDGET = range(5)
"""The rules.

- `BY_TABLE`: the tier is `table[last tier, batch]`. A schedule by batch has equal rows; different rows are a
  hysteresis.
- `BY_LAST_BATCH`: the same with the batch size of the last decoding step, which is remembered second, 0 at the start.
- `MOVING_AVERAGE`: each range of batch sizes follows its own mean of accepted tokens, see `moving_average`.
- `ACCEPTANCE_GATE`: `BY_TABLE` until the gate has closed, and the last tier of all from then on, see
  `acceptance_gate`.
- `SURVIVAL_BUDGET`: tier d verifies d tokens of each sequence. How many of each are verified is chosen in every step,
  see `step_budget.choose_budget`.
"""
GAP = -1
"""The controller has no tier for this batch size."""


@compiler(cache=True)
def choose_tier(rule: int, table: np.ndarray, numbers: np.ndarray, memory: np.ndarray, batch: int) -> int:
    """The index of the tier of the next step, in which `batch` sequences decode; `GAP` if there is none."""
    if rule == BY_LAST_BATCH:
        return table[int(memory[0]), int(memory[1]) if memory[1] else batch]
    if rule == MOVING_AVERAGE:
        return tier_of_slot(numbers, memory, batch)
    if rule == ACCEPTANCE_GATE and is_disabled(memory):
        return len(table) - 1
    return table[int(memory[0]), batch]


@compiler(cache=True)
def remember(
    rule: int,
    numbers: np.ndarray,
    memory: np.ndarray,
    batch: int,
    tier: int,
    accepted: int,
    seconds: float,
) -> None:
    """Change `memory` after a step of a tier with `batch` sequences, which accepted `accepted` drafted tokens."""
    memory[0] = tier
    if rule == BY_LAST_BATCH:
        memory[1] = batch
    elif rule == MOVING_AVERAGE:
        record_batch(numbers, memory, batch, accepted / batch)


@compiler(cache=True)
def completed(rule: int, numbers: np.ndarray, memory: np.ndarray, tokens: int, cycles: int) -> None:
    """Change `memory` after the last token of a request with an answer of `tokens`, which took `cycles` cycles."""
    if rule == ACCEPTANCE_GATE:
        record_request(numbers, memory, tokens, cycles)
