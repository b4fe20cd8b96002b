"""Ranges of consecutive batch sizes, and how they are written."""

from __future__ import annotations

import itertools

import numpy as np


def span(first: int, last: int) -> str:
    """A range of batch sizes in words, such as `3` or `3 to 7`."""
    return f"{first}" if first == last else f"{first} to {last}"


def spans(batches: np.ndarray, among: np.ndarray) -> str:
    """The batch sizes at which `among` is True, such as `1, 3 to 7`."""
    return ", ".join(span(first, last) for first, last, holds in runs(batches, among) if holds)


def runs(batches: np.ndarray, values: np.ndarray) -> list[tuple[int, int, int]]:
    """(first batch, last batch, value) for each range of consecutive batches with equal values."""
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1), len(values)]
    return [(int(batches[a]), int(batches[b - 1]), int(values[a])) for a, b in itertools.pairwise(starts)]
