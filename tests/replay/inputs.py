"""What the tests of this folder share: trees, rates, times, texts, prompts."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as hs

import spectheory as st
from spectheory.replay import TargetText

IID, NO_REPLACEMENT = st.DrawRule.IID, st.DrawRule.NO_REPLACEMENT
RULES = {True: IID, False: NO_REPLACEMENT}
TREE = st.Tree.k_ary(2, 2)
RATES = st.Acceptance.by_rank([0.5, 0.2, 0.1])
LATENCY = st.Latency.constant(draft_seconds=0.02)
trees = hs.lists(hs.integers(0, 10**6), max_size=9).map(
    lambda picks: st.Tree([-1, *(pick % (node + 1) for node, pick in enumerate(picks))])
)


def random_text(seed: int, n: int = 12, vocabulary: int = 7, depths: int = 2) -> TargetText:
    """p and q far apart, with zeros in q, and depths of their own."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(vocabulary, 0.5), n), rng.dirichlet(np.full(vocabulary, 0.5), (depths, n))
    q[..., 0] = 0
    q /= q.sum(-1, keepdims=True)
    p = (p + 0.01) / (p + 0.01).sum(1, keepdims=True)
    return TargetText(rng.integers(0, vocabulary, n), p, q)


TEXTS = [random_text(seed, n=40, depths=1) for seed in range(6)]


def prompts(count: int, length: int = 6) -> list[list[int]]:
    """Random prompts, the same ones at each call."""
    return np.random.default_rng(3).integers(0, 300, (count, length)).tolist()
