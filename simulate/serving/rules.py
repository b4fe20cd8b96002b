"""The rules by which a controller chooses the tier of a step, compiled into the loop of the engine.

A rule has a number, a branch in `choose_tier` and, if it remembers anything, a branch in `remember`. Both see the
controller's own arrays: `table` (tiers, batch sizes + 1) of tier indices, `numbers` of parameters, and `memory`, which
starts at the values that the controller gives and is changed by `remember`.
"""

from __future__ import annotations

import numpy as np

from spectheory.core.compiling import compiler

BY_TABLE = 0
"""The tier is `table[last tier, batch]`. A schedule by batch has equal rows; different rows are a hysteresis."""
GAP = -1
"""The controller has no tier for this batch size."""


@compiler(cache=True)
def choose_tier(rule: int, table: np.ndarray, numbers: np.ndarray, memory: np.ndarray, batch: int) -> int:
    """The index of the tier of the next step, in which `batch` sequences decode; `GAP` if there is none."""
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
