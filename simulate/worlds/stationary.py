"""The stationary distribution of a Markov chain, in float64 and in Fractions."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Shaped

from spectheory import InputError


def stationary(steps: Shaped[np.ndarray, "states states"], what: str) -> Shaped[np.ndarray, " states"]:
    """The stationary distribution of a chain with transition probabilities `steps`.

    States are eliminated one after the other without a subtraction, so that nothing cancels in floating point
    (Grassmann, Taksar and Heyman 1985), and Fractions stay exact.

    Raises:
        InputError: the chain has several closed classes of states, so that the start decides in which one it ends. The
            message names the chain as `what`.
    """
    closed = _closed_classes(steps)
    if len(closed) > 1:
        raise InputError(
            f"{what} must have one closed class of states, got {len(closed)}, such as {closed[0][:4].tolist()} and "
            f"{closed[1][:4].tolist()}: where a request ends depends on its first token; simulate each class on its own"
        )
    states = closed[0]
    rest: Any = steps[np.ix_(states, states)].copy()
    for last in range(len(states) - 1, 0, -1):
        rest[:last, last] /= rest[last, :last].sum()
        rest[:last, :last] += np.outer(rest[:last, last], rest[last, :last])
    weights = steps[0] * 0
    weights[states[0]] += 1
    for place in range(1, len(states)):
        weights[states[place]] = weights[states[:place]] @ rest[:place, place]
    return weights / weights.sum()


def _closed_classes(steps: np.ndarray) -> list[np.ndarray]:
    """The sets of states that reach each other and nothing else."""
    from scipy.sparse.csgraph import connected_components

    possible = (steps > 0).astype(np.int8)
    count, label = connected_components(possible, connection="strong")
    leaves = {int(label[a]) for a, b in np.argwhere(possible) if label[a] != label[b]}
    return [np.flatnonzero(label == number) for number in range(count) if number not in leaves]
