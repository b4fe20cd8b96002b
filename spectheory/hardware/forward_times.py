"""`ForwardTimes`: seconds of forwards of target and draft, by number of tokens and by context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from spectheory.core.checks import SHORTEST, check_array, check_seconds, check_whole
from spectheory.core.errors import InputError

LARGEST_COUNT = 2**53
"""Numbers of tokens must be below this number. Above it, float64 does not hold every whole number."""


@dataclass(frozen=True, eq=False, repr=False)
class ForwardTimes(ABC):
    """Seconds of a forward of both models, by number of tokens and context.

    Between the measured points the seconds are interpolated linearly in tokens and in context. For more tokens than
    measured they are extrapolated with the last slope. Outside the measured contexts the nearest context is used.

    Attributes:
        tokens: (N,) int, increasing numbers of tokens in a forward; the first is 1.
        contexts: (C,) int, increasing numbers of tokens in the KV cache before the forward.
        target_seconds: (C, N) float64, median seconds of a target forward.
        draft_seconds: (C, N) float64, median seconds of a draft forward.
        target_spread_seconds: (C, N) float64, interquartile range of the target's seconds, or None.
        draft_spread_seconds: (C, N) float64, interquartile range of the draft's seconds, or None.
    """

    tokens: np.ndarray
    contexts: np.ndarray
    target_seconds: np.ndarray
    draft_seconds: np.ndarray
    target_spread_seconds: np.ndarray | None = None
    draft_spread_seconds: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "contexts"):
            object.__setattr__(self, name, _checked_axis(name, getattr(self, name)))
        if self.tokens[0] != 1:
            raise InputError(f"tokens must start at 1 (plain decoding), got {self.tokens.tolist()}")
        shape = (len(self.contexts), len(self.tokens))
        for name in ("target_seconds", "draft_seconds", "target_spread_seconds", "draft_spread_seconds"):
            if getattr(self, name) is None:
                continue
            seconds = check_array(name, getattr(self, name))
            if seconds.shape != shape:
                raise InputError(f"{name} must have shape (contexts, tokens) = {shape}, got {seconds.shape}")
            least = SHORTEST if name == "target_seconds" else 0
            object.__setattr__(self, name, check_seconds(name, seconds, least=least))

    @abstractmethod
    def plain(self, context: int) -> float:
        """Seconds per token of plain autoregressive decoding, with what is outside the forwards."""

    def covers(self, context: int) -> bool:
        """Whether `context` is within the measured contexts."""
        return bool(self.contexts[0] <= context <= self.contexts[-1])

    def target(self, tokens: int, context: int) -> float:
        """Seconds of one target forward of `tokens` tokens after `context` cached tokens."""
        return float(self._at(self.target_seconds, np.array(tokens), context))

    def draft(self, tokens: int, context: int) -> float:
        """Seconds of one draft forward of `tokens` tokens after `context` cached tokens."""
        return float(self._at(self.draft_seconds, np.array(tokens), context))

    def curves(self, most: int, context: int) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of draft forwards and of target forwards of 1, 2, ..., `most` tokens after `context` cached tokens.

        Returns:
            draft (most,) float64 and target (most,) float64.
        """
        tokens = np.arange(1, most + 1)
        return self._at(self.draft_seconds, tokens, context), self._at(self.target_seconds, tokens, context)

    def context_of(self, context: int | None) -> int:
        """The context for a plan: `context` after a check, or the middle one of the measured contexts for None.

        Outside the measured contexts, `target` and `draft` use the nearest context. That is meant for single cycles
        that run past the last context. A plan for a context that was not measured is refused here.

        Raises:
            InputError: the context is not a whole number of at least 0, or it is outside the measured contexts.
        """
        if context is None:
            return int(self.contexts[len(self.contexts) // 2])
        check_whole("context", context, 0)
        nearest = int(np.clip(context, self.contexts[0], self.contexts[-1]))
        if nearest != context:
            raise InputError(
                f"context must be within the measured {self.contexts[0]:,} to {self.contexts[-1]:,} cached tokens, got "
                f"{context:,}: measure there, or plan for the nearest, context={nearest}"
            )
        return int(context)

    def _at(self, seconds: np.ndarray, tokens: np.ndarray, context: int) -> np.ndarray:
        row = self._row(seconds, context)
        slope = (row[-1] - row[-2]) / (self.tokens[-1] - self.tokens[-2]) if len(row) > 1 else 0.0
        beyond = (tokens - self.tokens[-1]).clip(0)
        return np.interp(tokens, self.tokens, row) + max(0.0, slope) * beyond

    def _row(self, seconds: np.ndarray, context: int) -> np.ndarray:
        """Seconds at one context for each number of tokens: `np.interp` of each column."""
        at = int(np.searchsorted(self.contexts, context, side="right")) - 1
        if at < 0 or at == len(self.contexts) - 1:
            return seconds[max(at, 0)]
        slope = (seconds[at + 1] - seconds[at]) / (self.contexts[at + 1] - self.contexts[at])
        return slope * (context - self.contexts[at]) + seconds[at]


def _checked_axis(name: str, numbers: np.ndarray) -> np.ndarray:
    """The tokens or the contexts, after a check, as int64."""
    axis = check_array(name, numbers)
    if axis.ndim != 1 or axis.size == 0 or axis.dtype.kind not in "iu" or (axis[1:] <= axis[:-1]).any():
        raise InputError(f"{name} must be increasing whole numbers, got {axis.tolist()!s:.80}")
    if axis[0] < 0 or axis[-1] >= LARGEST_COUNT:
        raise InputError(f"{name} must be at least 0 and below 2**53, got {axis[0]} to {axis[-1]}")
    return axis.astype(np.int64)
