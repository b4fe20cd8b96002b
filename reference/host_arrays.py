"""Arrays that are NumPy arrays on the host and tensors on a device; draws and searches on the host.

On vectors of a few thousand numbers NumPy's operations are about six times as fast as torch's. One compiled loop
replaces several operators, each of which takes 5 to 40 microseconds between two forwards, which leave the processor's
caches cold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectheory.core.machine import compiler

LANES = 32
"""Number of partial sums that one pass over a distribution computes: token t is added to lane t mod LANES."""

Array = Any
"""`np.ndarray` on the host, `Tensor` on a device, as `numpy_on_host` returns it."""


def numpy_on_host(values: Tensor) -> Array:
    """Return a tensor on the host as a NumPy array that shares its memory; return a tensor on a device unchanged."""
    return values.numpy() if values.is_cpu else values


def to_host(values: Array) -> np.ndarray:
    """Return `values` as a NumPy array; a tensor on a device is copied to the host."""
    return values if isinstance(values, np.ndarray) else values.numpy(force=True)


def concatenated(parts: Sequence[Array], axis: int = 0) -> Array:
    """Join arrays of one kind along `axis`."""
    return np.concatenate(parts, axis) if isinstance(parts[0], np.ndarray) else torch.cat([*parts], axis)


@compiler(cache=True)
def draw_on_host(distributions: np.ndarray, uniforms: np.ndarray, apart: bool, tokens: np.ndarray) -> None:
    """Draw k tokens from each of P distributions by inversion in float64, with the tokens sorted by lane.

    Args:
        distributions: distributions (P, V), float32; they need not be normalised.
        uniforms: uniform numbers on [0, 1), (P k,) float64, row after row.
        apart: whether to draw without replacement.
        tokens: result (P, k), int64, in draw order; -1 where no token of positive probability is left.
    """
    k = tokens.shape[1]
    tokens[:] = -1
    for row in range(len(distributions)):
        weights, lanes = distributions[row].copy(), np.zeros(LANES)
        whole = len(weights) - len(weights) % LANES
        for first in range(0, whole, LANES):
            for lane in range(LANES):
                lanes[lane] += weights[first + lane]
        for token in range(whole, len(weights)):
            lanes[token - whole] += weights[token]
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
            for token in range(lane, len(weights), LANES):
                if weights[token] > 0:
                    taken = token
                    if left < weights[token]:
                        break
                    left -= weights[token]
            tokens[row, draw] = taken
            if apart:
                weights[taken] = 0
                lanes[lane] = 0
                for token in range(lane, len(weights), LANES):
                    lanes[lane] += weights[token]


@compiler(cache=True)
def largest_on_host(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (int64) and values of the k largest in each row, largest first; ties: lower token first."""
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
