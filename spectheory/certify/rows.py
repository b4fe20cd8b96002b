"""Rows of tokens, one row for each context of a batch, and what samplers return instead of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectheory.core.checks import check_array
from spectheory.core.errors import InputError

PLACEHOLDER = -1
"""The entry of a row where there is no token. Placeholders are at the end of a row of emitted tokens."""

Rows = np.ndarray | Sequence[Sequence[int]]
"""An array (n, k) of tokens and placeholders, or n sequences of tokens, which may have different lengths."""


def padded(rows: Rows) -> np.ndarray:
    """(n, k) the rows as an array, each filled up with placeholders at its end.

    Raises:
        InputError: the rows are not rows of whole numbers.
    """
    if isinstance(rows, list | tuple):
        found = [np.asarray(row) for row in rows]
        if any(row.ndim != 1 for row in found):
            raise InputError(f"rows must be one sequence of tokens for each context, got {rows!r:.80}")
        array = np.full((len(found), max([1, *map(len, found)])), PLACEHOLDER)
        for row, tokens in zip(array, found, strict=True):
            row[: len(tokens)] = _whole(tokens) if len(tokens) else tokens
        return array
    array = np.asarray(rows)
    if array.ndim != 2:
        raise InputError(f"rows must be an array of shape (contexts, tokens) or a list of rows, got {_what(array)}")
    return _whole(array)


def rows_of_indices(tokens: Any, indices: Any) -> np.ndarray:
    """(n, k) rows of tokens from the indices of accepted tokens.

    Args:
        tokens: the tokens that the indices count: (t,) those of all rows one after another, or (n, t) those of each
            row.
        indices: (n, k) indices of the tokens that each row emits, in order; -1 where there is none.
    """
    tokens, indices = _whole(check_array("tokens", tokens)), _whole(check_array("indices", indices), "indices")
    if tokens.ndim not in (1, 2) or indices.ndim != 2 or indices.max(initial=-1) >= tokens.shape[-1]:
        raise InputError(f"indices must be rows of indices of tokens {tokens.shape}, got {indices.tolist()!s:.80}")
    picked = tokens[indices] if tokens.ndim == 1 else np.take_along_axis(tokens, np.maximum(indices, 0), 1)
    return np.where(indices < 0, PLACEHOLDER, picked)


def drawn(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n,) one token from each row of weights (n, V), which need not sum to 1."""
    edges = np.cumsum(weights.T, axis=0)
    return np.minimum((rng.random(len(weights)) * edges[-1] >= edges).sum(axis=0), weights.shape[1] - 1)


def _whole(array: np.ndarray, name: str = "tokens") -> np.ndarray:
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must be whole numbers, got {_what(array)}: return token ids, -1 for none")
    return array.astype(np.int64)


def _what(array: np.ndarray) -> str:
    return f"an array of shape {array.shape} and type {array.dtype}"
