"""Loops over the vocabulary for laws that lie on the host, compiled: one pass where tensor operators take several.

Between two forwards, which leave a processor's caches cold, each of those operators takes 5 to 40 microseconds.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 32
"""Running sums that a pass over a law adds up side by side, token t to lane t mod LANES."""


@njit(cache=True)
def drawn(laws: np.ndarray, uniforms: np.ndarray, apart: bool, tokens: np.ndarray) -> None:
    """Draws by inversion in float64, the tokens of one lane standing together; without replacement where `apart`.

    Args:
        laws: (P, V) float32, which need not be normalised.
        uniforms: (P k,) float64 on [0, 1), row after row.
        apart: whether a token is taken out of its law once it is drawn.
        tokens: (P, k) int64, filled with tokens of positive probability, in draw order; -1 from where none is left.
    """
    k = tokens.shape[1]
    tokens[:] = -1
    for row in range(len(laws)):
        law, lanes = laws[row].copy(), np.zeros(LANES)
        whole = len(law) - len(law) % LANES
        for first in range(0, whole, LANES):
            for lane in range(LANES):
                lanes[lane] += law[first + lane]
        for token in range(whole, len(law)):
            lanes[token - whole] += law[token]
        for draw in range(k):
            left, lane = uniforms[row * k + draw] * lanes.sum(), -1
            for candidate in range(LANES):
                if lanes[candidate] > 0:
                    lane = candidate
                    if left < lanes[lane]:
                        break
                    left -= lanes[lane]
            if lane < 0:
                break
            taken = -1
            for token in range(lane, len(law), LANES):
                if law[token] > 0:
                    taken = token
                    if left < law[token]:
                        break
                    left -= law[token]
            tokens[row, draw] = taken
            if apart:
                law[taken] = 0
                lanes[lane] = 0
                for token in range(lane, len(law), LANES):
                    lanes[lane] += law[token]


@njit(cache=True)
def largest(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k <= V largest of each row of (P, V), falling, equal ones by token: tokens (P, k) int64, and values."""
    shape = len(values), k
    tokens, found = np.empty(shape, np.int64), np.empty(shape, values.dtype)
    for row in range(len(values)):
        for token in range(values.shape[1]):
            value, place = values[row, token], min(token, k - 1)
            if token >= k and not value > found[row, place]:
                continue
            while place > 0 and found[row, place - 1] < value:
                tokens[row, place], found[row, place] = tokens[row, place - 1], found[row, place - 1]
                place -= 1
            tokens[row, place], found[row, place] = token, value
    return tokens, found
