"""What the tests of this folder share: a tree, rates, times, texts, prompts."""

from __future__ import annotations

import numpy as np

import spectheory as st
from tests.replay.test_replays import random_text

RULES = {True: st.DrawRule.IID, False: st.DrawRule.NO_REPLACEMENT}
TREE = st.Tree.k_ary(2, 2)
RATES = st.Acceptance.by_rank([0.5, 0.2, 0.1])
LATENCY = st.Latency.constant(draft_seconds=0.02)
BUSHY = st.Tree([-1, 0, 0, 1, 1, 2, 3])
RANKS = np.array([0, 1, 0, -1, 0, 0, 3, 1, 0, 0, 2, 0, 0, -1, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, -1, 0, 0, 0])
TEXTS = [random_text(seed, n=40, depths=1) for seed in range(6)]


def prompts(count: int, length: int = 6) -> list[list[int]]:
    """Random prompts, the same ones at each call."""
    return np.random.default_rng(3).integers(0, 300, (count, length)).tolist()
