"""Misses: where cycles end although something was drafted below, by depth and by rank of the token of the text."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.replay.greedy import ChainText, GreedyText
from spectheory.replay.kernels import Text
from spectheory.replay.replays import Replays
from spectheory.verify import Verifier

MOST_RANKS = 16
"""Ranks from this one on are counted together with tokens that the draft did not propose."""


def misses(replays: Replays, tree: Tree, verifier: Verifier, rule: DrawRule) -> tuple[np.ndarray, np.ndarray]:
    """`next_child` and `missed` of `Explained`."""
    if replays.recorded:
        return np.zeros(0), np.zeros(0)
    fanout = np.bincount(tree.parent[1:], minlength=tree.budget + 1)
    next_child, missed, cycles = np.zeros(tree.max_depth), np.zeros((2, MOST_RANKS + 1)), 0.0
    starts = replays.starts(tree, verifier, rule)
    for text, started, passed in zip(replays.texts, starts, replays.passed(tree, verifier, rule), strict=True):
        ranks, whole = ranks_of(text), len(started)
        cycles += started.sum()
        for node in range(tree.budget + 1):
            depth = int(tree.depth[node])
            stopped = started * (passed[:whole, node] - passed[:whole, list(tree.child_lists[node])].sum(1))
            there = ranks[min(depth, len(ranks) - 1), depth : depth + whole]
            place = np.where((there < 0) | (there >= MOST_RANKS), MOST_RANKS, there)
            missed[int(fanout[node] == 0)] += np.bincount(place, stopped, MOST_RANKS + 1)
            if fanout[node]:
                next_child[depth] += stopped @ (there == fanout[node])
    greedy = isinstance(replays.texts[0], GreedyText)
    return next_child / cycles if greedy else np.zeros(0), missed / cycles


def ranks_of(text: Text) -> Int[np.ndarray, "depths n"]:
    """Rank of each token of a text among the draft's candidates, the most probable first; -1 if there is none.

    Raises:
        InputError: the text has accepted lengths only.
    """
    if isinstance(text, GreedyText):
        return text.ranks
    if isinstance(text, ChainText):
        raise InputError("text must have ranks or probabilities, got recorded lengths only")
    tokens = text.tokens[:, None]
    ranks = []
    for rows in text.q:
        own = np.take_along_axis(rows, tokens, 1)
        before = (rows > own) | ((rows == own) & (np.arange(rows.shape[1]) < tokens))
        ranks.append(np.where(own[:, 0] > 0, before.sum(1), -1))
    return np.array(ranks)
