"""Uniform numbers by request and position: hashes, so that all schedules meet the same numbers in the same places."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt64

from spectheory.core.compiling import compiler

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
