"""Decoding steps of a drafter and a verifier together. A test of the verifier alone would not find their faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spectheory.certify.play import Play
from spectheory.certify.zoo.specimen import StepSpecimen
from spectheory.core.arrays import residual
from spectheory.core.world import Context

SIZE = 8
_rng = np.random.default_rng(7)
P, Q = _rng.dirichlet(np.full(SIZE, 0.8), SIZE), _rng.dirichlet(np.full(SIZE, 0.8), SIZE)
"""(V, V) distributions of target and draft; row t applies after the token t."""


def top(distribution: np.ndarray, k: int) -> np.ndarray:
    """The distribution, limited to its k most probable tokens as by a logits processor."""
    kept = np.where(distribution >= np.sort(distribution)[-k], distribution, 0.0)
    return kept / kept.sum()


def last(context: Context) -> int:
    """The last token of the context; 0 if the context is empty."""
    return (0, *context)[-1]


def target(context: Context) -> np.ndarray:
    """The target of all steps without a logits processor."""
    return P[last(context)]


def processed_target(context: Context) -> np.ndarray:
    """The target after a top-3 logits processor."""
    return top(P[last(context)], 3)


def _pick(distribution: np.ndarray, noise: np.ndarray) -> int:
    """A draw from `distribution` by the exponential race; `noise` must be fresh standard exponential numbers."""
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
    """Rejection sampling of a drafted token, and the bonus token after it. By default `coin` and `noise` are fresh."""
    coin = rng.random() if coin is None else coin
    noise = _noise(rng) if noise is None else noise
    if coin * q[drafted] < p[drafted]:
        return [drafted, _pick(bonus((drafted,)), _noise(rng))]
    return [_pick(residual(p, q), noise)]


def fresh_noise(context: Context, rng: Any) -> list[int]:
    """Draft one token and verify it, with fresh noise for each draw. Lossless."""
    p, q = target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(q, _noise(rng)), rng)


def shared_noise(context: Context, rng: Any) -> list[int]:
    """The verifier draws its correction with the drafter's noise. Seen in vLLM 47386."""
    p, q, noise = target(context), Q[last(context)], _noise(rng)
    return _kept_or_corrected(p, q, _pick(q, noise), rng, noise=noise)


def shared_seed(context: Context, rng: Any) -> list[int]:
    """Drafter and verifier use the same seed, so the verifier's random number equals the drafter's."""
    p, q, coin = target(context), Q[last(context)], rng.random()
    drafted = min(int(np.searchsorted(np.cumsum(q), coin, side="right")), SIZE - 1)
    return _kept_or_corrected(p, q, drafted, rng, coin=coin)


def other_draft_distribution(context: Context, rng: Any) -> list[int]:
    """The drafter draws after a top-4 processor, but the verifier gets q from before it. Seen in transformers 47932."""
    p, q = target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(top(q, 4), _noise(rng)), rng)


def unprocessed_second_row(context: Context, rng: Any) -> list[int]:
    """The logits processor runs only on the first verified row. Seen in vLLM 42744 and SGLang 10617."""
    p, q = processed_target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(q, _noise(rng)), rng)


def processed_rows(context: Context, rng: Any) -> list[int]:
    """The logits processor runs on every verified row. Lossless."""
    p, q = processed_target(context), Q[last(context)]
    return _kept_or_corrected(p, q, _pick(q, _noise(rng)), rng, bonus=processed_target)


class StaleBuffer:
    """The verifier reads q of the previous step, from a buffer that is filled too late."""

    def __init__(self) -> None:
        self.q = np.full(SIZE, 1 / SIZE)

    def __call__(self, context: Context, rng: Any) -> list[int]:
        """Run one step."""
        stale, self.q = self.q, Q[last(context)]
        return _kept_or_corrected(target(context), stale, _pick(self.q, _noise(rng)), rng)


def sampler_match(context: Context, rng: Any) -> list[int]:
    """Draw a token from the target, and accept the greedy draft if it equals it. Lossless, but keeps few tokens."""
    token = _pick(target(context), _noise(rng))
    return [token, _pick(P[token], _noise(rng))] if token == int(Q[last(context)].argmax()) else [token]


def budget_by_drawn_token(contexts: np.ndarray, rng: Any, *, drawn: bool = True) -> list[list[int]]:
    """Requests share a budget, which goes to the drawn tokens with the largest q, as if they were argmaxes."""
    last_tokens = [last(context) for context in np.maximum(contexts, 0).tolist()]
    drafted = [_pick(Q[token], _noise(rng)) for token in last_tokens]
    sure = Q[last_tokens, drafted] if drawn else Q[last_tokens].max(axis=1)
    admitted = np.argsort(np.argsort(-sure)) < len(sure) / 2
    return [
        _kept_or_corrected(P[token], Q[token], draft, rng) if one else [_pick(P[token], _noise(rng))]
        for token, draft, one in zip(last_tokens, drafted, admitted, strict=True)
    ]


def budget_before_drawing(contexts: np.ndarray, rng: Any) -> list[list[int]]:
    """Requests share a budget, which goes to the contexts whose draft is surest before a token is drawn. Lossless."""
    return budget_by_drawn_token(contexts, rng, drawn=False)


def _specimen(
    name: str, step: Any, is_lossless: bool, distribution: Any = target, batch: int | None = None
) -> StepSpecimen:
    return StepSpecimen(name, step.__doc__, Play("", step, distribution, ((), (3,)), 2, SIZE, batch), is_lossless)


STEPS = (
    _specimen("shared-noise", shared_noise, False),
    _specimen("shared-seed", shared_seed, False),
    _specimen("other-draft-distribution", other_draft_distribution, False),
    _specimen("unprocessed-second-row", unprocessed_second_row, False, processed_target),
    _specimen("stale-buffer", StaleBuffer(), False),
    _specimen("fresh-noise", fresh_noise, True),
    _specimen("processed-rows", processed_rows, True, processed_target),
    _specimen("sampler-match-step", sampler_match, True),
    _specimen("budget-before-drawing", budget_before_drawing, True, batch=6),
    _specimen("budget-by-drawn-token", budget_by_drawn_token, False, batch=6),
)
SHARED_SEED = STEPS[1].play
