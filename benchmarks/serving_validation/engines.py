"""Simulated engines with times of a plain form, and what their requests take by theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulate import Server, StepTimes, Tier
from spectheory import Latency, Provenance

SIZES = 64
"""Largest batch size of an engine with linear times."""


def constant_server(seconds: float, sequences: int) -> Server:
    """An engine whose every step takes `seconds`, whatever it does, with at most `sequences` sequences."""
    sizes = np.arange(1, sequences + 1)
    one = Latency.constant(target_seconds=seconds)
    return Server(StepTimes.by_batch(sizes, [one] * sequences), batched_tokens=2**20)


@dataclass(frozen=True)
class LinearTimes:
    """Seconds that are linear in the tokens of the KV memory and in the tokens of a forward.

    Attributes:
        kv, tokens, fixed: seconds of a target forward for each cached token, for each token, and besides.
        draft_kv, draft_tokens, draft_fixed: the same for the draft, which runs once in a cycle.
        overhead: seconds of a step outside the forwards.
    """

    kv: float
    tokens: float
    fixed: float
    draft_kv: float
    draft_tokens: float
    draft_fixed: float
    overhead: float

    def forward(self, cached: int, tokens: int) -> float:
        """Seconds of a target forward."""
        return cached * self.kv + tokens * self.tokens + self.fixed

    def draft(self, cached: int, tokens: int) -> float:
        """Seconds of the drafting of a cycle that verifies `tokens` tokens of a sequence."""
        return cached * self.draft_kv + tokens * self.draft_tokens + self.draft_fixed

    def server(self, sequences: int, longest: int, *, before: int = 0) -> Server:
        """The engine with these times. `before` tokens of each sequence are cached besides those that it counts."""
        contexts, grid = np.array([0, longest]), np.array([1, 2, 64])
        rows = []
        for batch in range(1, sequences + 1):
            cached = batch * (contexts + before)
            target = [[self.forward(c, batch * int(n)) for n in grid] for c in cached]
            draft = [[self.draft(c, int(n) + 1) for n in grid] for c in cached]
            times = np.array(target), np.array(draft)
            latency = Latency(
                grid,
                contexts,
                *times,
                overhead_seconds=self.overhead,
                plain_overhead_seconds=self.overhead,
                drafting="at once",
                provenance=Provenance("linear times", batch=batch),
            )
            rows.append(latency)
        return Server(StepTimes.by_batch(range(1, sequences + 1), rows), batched_tokens=2**20)


def cycle_moments(tier: Tier, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """(tokens + 1,) mean and mean square of the number of cycles that emit 0, 1, ... tokens, at least.

    By the first cycle: it emits k tokens with the probability that it accepts k - 1, and the rest is a shorter answer.
    """
    survival = np.append(tier.survival[0], 0.0)
    emits = survival[:-1] - survival[1:]
    mean, square = np.zeros(tokens + 1), np.zeros(tokens + 1)
    for left in range(1, tokens + 1):
        rest = np.maximum(left - np.arange(1, len(emits) + 1), 0)
        mean[left] = 1 + emits @ mean[rest]
        square[left] = 1 + 2 * (emits @ mean[rest]) + emits @ square[rest]
    return mean, square


def service_moments(tier: Tier, seconds: float, answers: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Mean and mean square of the seconds of a request: one step reads its prompt, cycles emit the rest of its answer.

    Args:
        tier: what each cycle runs.
        seconds: seconds of every step.
        answers: numbers of tokens of an answer with their probabilities.
    """
    mean, square = cycle_moments(tier, max(tokens for tokens, _ in answers))
    first = sum(share * (1 + mean[tokens - 1]) for tokens, share in answers)
    second = sum(share * (1 + 2 * mean[tokens - 1] + square[tokens - 1]) for tokens, share in answers)
    return float(seconds * first), float(seconds**2 * second)
