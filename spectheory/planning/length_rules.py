"""Length rules: the length of the chain at each batch size, for an engine that cannot run every chain."""

from __future__ import annotations

import numpy as np

from spectheory.planning.fitting import Fitting, LengthRule


def at_most(longest: int) -> LengthRule:
    """A rule for an engine that runs chains of up to `longest` tokens: the fastest of them at each batch size."""
    return lambda fitting: (
        fitting.speeds.chain_lengths
        if fitting.speeds.chain_lengths.max() <= longest
        else fitting.speeds.chain_speedups[:, : longest + 1].argmax(axis=1)
    )


def one_length(longest: int) -> LengthRule:
    """A rule for an engine that runs one length, up to `longest`, at all batch sizes; length 0 means no speculation.

    The rule takes the length of highest mean share of the plan's speed.
    """

    def rule(fitting: Fitting) -> np.ndarray:
        shares = fitting.speeds.chain_speedups[:, : longest + 1] / fitting.schedule.chain_speedup[:, None]
        return np.full(len(shares), shares.mean(axis=0).argmax())

    return rule


def one_length_then_off(fitting: Fitting) -> np.ndarray:
    """The rule for an engine that runs one length up to a batch size, and does not speculate above it.

    The rule takes the length and the batch size of highest mean share of the plan's speed.
    """
    shares = fitting.speeds.chain_speedups / fitting.schedule.chain_speedup[:, None]
    gained = np.vstack([np.zeros(shares.shape[1]), np.cumsum(shares - shares[:, :1], axis=0)])
    until, length = np.unravel_index(gained.argmax(), gained.shape)
    return np.where(np.arange(len(shares)) < until, length, 0)


def first_is_longest(fitting: Fitting) -> np.ndarray:
    """The rule for an engine that runs no chain longer than the chain at the first batch size.

    Each length is tried at the first batch size, with the fastest chain up to that length at every other size. The
    lengths of highest mean share of the plan's speed are taken, so the first chain may be longer than is fastest there.
    """
    if fitting.speeds.chain_lengths[0] == fitting.speeds.chain_lengths.max():
        return fitting.speeds.chain_lengths
    tried = [fitting.speeds.chain_speedups[:, : most + 1].argmax(axis=1) for most in range(fitting.speeds.longest + 1)]
    for most, lengths in enumerate(tried):
        lengths[0] = most
    rows = np.arange(len(fitting.speeds.chain_lengths))
    return max(
        tried,
        key=lambda lengths: (fitting.speeds.chain_speedups[rows, lengths] / fitting.schedule.chain_speedup).mean(),
    )
