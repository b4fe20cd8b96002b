"""Seconds of a step of the engine loop, and how many drafted tokens a step verifies under a budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulate.serving.engine_state import Machine, State
from spectheory.core.compiling import compiler

INLINED = compiler(cache=True, inline="always")
INNER = compiler(cache=True, no_cpython_wrapper=True)
"""For functions that only compiled functions call: the wrapper for calls from Python is not compiled."""
NOTHING: Any = np.int64(0)
"""The number 0 as a variable: given the literal 0, Numba would compile the function a second time."""


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


@compiler(cache=True)
def budget_seconds(machine: Machine, drafted: int, batch: int, context: float, prompt: int) -> float:
    """Seconds of a step that verifies `drafted` tokens of all sequences together, linear between whole means."""
    tier, rest = (drafted // batch, drafted % batch) if batch else (0, 0)
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
    best, best_rate = 0, batch / budget_seconds(machine, NOTHING, batch, context, NOTHING)
    for one in range(classes):
        state.most[one], state.more[one] = 0, 0
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
            rate = (emitted + (at - count) * worth) / budget_seconds(machine, at, batch, context, NOTHING)
            if rate > best_rate:
                best, best_rate = at, rate
                for one in range(classes):
                    state.most[one], state.more[one] = taken[one], 0
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


@INNER
def verified(state: State, kind: int) -> int:
    """Drafted tokens that are verified of the next request of a class; the first requests get those that are left."""
    if state.more[kind] > 0:
        state.more[kind] -= 1
        return state.most[kind] + 1
    return state.most[kind]
