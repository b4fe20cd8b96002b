"""Verifiers and steps to certify, right, wrong and broken; torch is imported only by those that use it."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np

import spectheory as st
from spectheory.certify import Play
from spectheory.core.arrays import residual


def naive(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right on a single draft, written with functions of NumPy that need float64."""
    child = draft.draws[0][0]
    token = draft.tokens[child]
    if rng.random() < np.exp(np.log(p[0][token]) - np.log(draft.q[0][token])):
        return child, rng.choice(len(p[child]), p=p[child])
    return 0, rng.choice(len(p[0]), p=residual(p[0], draft.q[0]))


def casts(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but computes in float32."""
    import torch

    distribution = torch.tensor([float(x) for x in p[0]], dtype=torch.float32)
    return 0, rng.choice(len(distribution), p=distribution.double() / distribution.double().sum())


def loops(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, by a rejection loop that may take any number of rounds."""
    while True:
        token = rng.integers(len(p[0]))
        if rng.random() < p[0][token]:
            return 0, token


def spoils_the_draft(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but overwrites the draft that it is given, and draws a token that it does not emit."""
    draft.q[0][:] = 0
    return 0, max(enumerate(rng.choice(len(p[0]), 2, p=p[0])))[1]


def wrong_on_one_shape_only(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Emits token 0 wherever three paths of two tokens were drafted."""
    if len(draft.draws[0]) == 3 and draft.tree.max_depth == 2:
        return 0, 0
    return 0, rng.choice(len(p[0]), p=p[0])


def raises(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    raise KeyError("lost")


def returns_late(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    start = time.process_time()
    while time.process_time() <= start + 1:
        pass
    return 0, 0


def draws_forever(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Never returns in the branch in which every coin is tails."""
    while rng.random() < 0.5:
        pass
    return 0, 0


def no_target(_: Any) -> Any:
    raise KeyError("no target")


BROKEN_STEP = Play("", lambda *_: [0], no_target, ((),), 2, 2)


def leaves_the_tree(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    return 77, 0


def invents_a_token(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    return 0, len(p[0])


def own_draws(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Right, but draws from a generator of its own."""
    return 0, int(np.random.Generator(np.random.PCG64()).choice(len(p[0]), p=[float(x) for x in p[0]]))


def some_own_draws(draft: st.Draft, p: Any, rng: Any, own: np.random.PCG64) -> tuple[int, int]:
    """Right, but every fiftieth draw is from a generator of its own."""
    generator = np.random.Generator(own) if own.random_raw() % 50 == 0 else rng
    return 0, int(generator.choice(len(p[0]), p=[float(x) for x in p[0]]))


def rarely_wrong(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Wrong once in ten thousand times, by a coin that no replay sees."""
    return 0, 0 if random.gauss() > 3.7 else rng.choice(len(p[0]), p=p[0])


def noisy(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    return 0, int(np.argmax(np.asarray(p[0], float) / rng.standard_gamma(1, size=len(p[0]))))


def bonus_from_the_draft(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Rejection sampling along a path; the bonus token is drawn from the draft's distribution after the path's start.

    Its global generator keeps it from being enumerated.
    """
    random.random()
    for node in range(draft.tree.budget):
        token = int(draft.tokens[node + 1])
        if rng.random() * draft.q[node][token] >= p[node][token]:
            return node, rng.choice(len(p[node]), p=residual(p[node], draft.q[node]))
    return draft.tree.budget, rng.choice(len(p[0]), p=draft.q[0])


class ReusedCoins:
    """Rejection sampling of one token that draws a coin in every other call, and uses it twice."""

    rules = (st.DrawRule.IID,)
    __name__ = "ReusedCoins"

    def __init__(self) -> None:
        self.coins: list[float] = []

    def __call__(self, draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
        random.random()
        coin = self.coins.pop() if self.coins else self._fresh(rng)
        token = int(draft.tokens[1])
        if coin * draft.q[0][token] < p[0][token]:
            return 1, rng.choice(len(p[1]), p=p[1])
        return 0, rng.choice(len(p[0]), p=residual(p[0], draft.q[0]))

    def _fresh(self, rng: Any) -> float:
        self.coins.append(rng.random())
        return self.coins[0]


def drops_below_a_twentieth(draft: st.Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Draws from the target, but never a token of probability below 1/20."""
    random.random()
    kept = np.where(p[0] < 0.05, 0, p[0])
    return 0, rng.choice(len(kept), p=kept / kept.sum())
