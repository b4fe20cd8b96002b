"""Whole decoding steps, drafter and verifier together: bugs that no test of the verifier alone can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spectheory.certify.zoo.specimen import StepSpecimen
from spectheory.core.arrays import residual
from spectheory.core.world import Context

SIZE = 8
_rng = np.random.default_rng(7)
P, Q = _rng.dirichlet(np.full(SIZE, 0.8), SIZE), _rng.dirichlet(np.full(SIZE, 0.8), SIZE)
"""(V, V) distributions of target and draft after each last token."""


def top(distribution: np.ndarray, k: int) -> np.ndarray:
    """The distribution cut to its k most probable tokens: a logits processor."""
    kept = np.where(distribution >= np.sort(distribution)[-k], distribution, 0.0)
    return kept / kept.sum()


def last(context: Context) -> int:
    """The last token, 0 where there is none."""
    return (0, *context)[-1]


def target(context: Context) -> np.ndarray:
    """The distribution that every plain step is held to."""
    return P[last(context)]


def processed_target(context: Context) -> np.ndarray:
    """The same behind a top-3 processor."""
    return top(P[last(context)], 3)


def _pick(distribution: np.ndarray, noise: np.ndarray) -> int:
    """The exponential race: a draw from `distribution` where `noise` is fresh standard exponential."""
    return int(np.argmax(distribution / noise))


def _noise(rng: Any) -> np.ndarray:
    return rng.exponential(size=SIZE)


def _kept_or_corrected(
    p: np.ndarray,
    q: np.ndarray,
    drafted: int,
    rng: Any,
    *,
    coin: float | None = None,
    noise: np.ndarray | None = None,
    bonus: Callable[[Context], np.ndarray] = target,
) -> list[int]:
    """Rejection sampling of one draft, and the bonus token behind it; `coin` and `noise` are fresh where not given."""
    coin = rng.random() if coin is None else coin
    noise = _noise(rng) if noise is None else noise
    if coin * q[drafted] < p[drafted]:
        return [drafted, _pick(bonus((drafted,)), _noise(rng))]
    return [_pick(residual(p, q), noise)]


def fresh_noise(context: Context, rng: Any) -> list[int]:
    """Draft one token, verify it, with fresh noise for each draw. Right."""
    p, q = target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(q, _noise(rng)), rng)


def shared_noise(context: Context, rng: Any) -> list[int]:
    """The verifier draws its correction with the drafter's noise. Seen in vLLM 47386."""
    p, q, noise = target(context), Q[last(context)], _noise(rng)
    return _kept_or_corrected(p, q, _pick(q, noise), rng, noise=noise)


def shared_seed(context: Context, rng: Any) -> list[int]:
    """Drafter and verifier seed their own streams alike: the coin is the number that the draft was drawn with."""
    p, q, coin = target(context), Q[last(context)], rng.random()
    drafted = min(int(np.searchsorted(np.cumsum(q), coin, side="right")), SIZE - 1)
    return _kept_or_corrected(p, q, drafted, rng, coin=coin)


def other_draft_distribution(context: Context, rng: Any) -> list[int]:
    """The draft is drawn behind a top-4 processor, the verifier is passed q without it. Seen in transformers 47932."""
    p, q = target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(top(q, 4), _noise(rng)), rng)


def unprocessed_second_row(context: Context, rng: Any) -> list[int]:
    """The logits processor runs on the first verified row only. Seen in vLLM 42744 and SGLang 10617."""
    p, q = processed_target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(q, _noise(rng)), rng)


def processed_rows(context: Context, rng: Any) -> list[int]:
    """The logits processor runs on every verified row. Right."""
    p, q = processed_target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(q, _noise(rng)), rng, bonus=processed_target)


class StaleBuffer:
    """The verifier reads the q of the call before, from a buffer that is filled too late."""

    def __init__(self) -> None:
        self.q = np.full(SIZE, 1 / SIZE)

    def __call__(self, context: Context, rng: Any) -> list[int]:
        """One step."""
        stale, self.q = self.q, Q[last(context)]
        return _kept_or_corrected(target(context), stale, _pick(self.q, _noise(rng)), rng)


def sampler_match(context: Context, rng: Any) -> list[int]:
    """The target draws for itself; a greedy draft is kept if it is that token. Right, and slow."""
    token = _pick(target(context), _noise(rng))
    return [token, _pick(P[token], _noise(rng))] if token == int(Q[last(context)].argmax()) else [token]


def _specimen(name: str, step: Any, is_lossless: bool, distribution: Any = target) -> StepSpecimen:
    return StepSpecimen(name, step.__doc__, step, distribution, SIZE, is_lossless)


SHARED_SEED = _specimen("shared-seed", shared_seed, False)
STEPS = (
    _specimen("shared-noise", shared_noise, False),
    SHARED_SEED,
    _specimen("other-draft-distribution", other_draft_distribution, False),
    _specimen("unprocessed-second-row", unprocessed_second_row, False, processed_target),
    _specimen("stale-buffer", StaleBuffer(), False),
    _specimen("fresh-noise", fresh_noise, True),
    _specimen("processed-rows", processed_rows, True, processed_target),
    _specimen("sampler-match-step", sampler_match, True),
)
