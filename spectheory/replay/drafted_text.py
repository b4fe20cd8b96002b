"""What one draft does on one text: its cycles, a cycle from every root, and the reliability of its probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from spectheory.core.tree import Tree
from spectheory.replay.cycle import Cycle, OneText
from spectheory.replay.reliability import BINS, RANKS, reliability
from spectheory.replay.replays import _counted, _whole
from spectheory.replay.text import CycleChain, TargetText


@dataclass(frozen=True, eq=False)
class DraftedText:
    """The cycles of one draft on one text, of those that `Replays.replay` counts.

    Attributes:
        emitted: expected tokens of the cycles.
        cycles: expected number of the cycles.
        accepted: (L + 1,) expected number of the cycles on this text that keep 0..L drafted tokens.
        by_root: (roots,) expected tokens of a cycle that starts at each position where a whole cycle fits, the first
            cycle's first; None where drafts are known at cycle starts only.
        reliability: (L, `RANKS`, `BINS`, 3) see `DraftRun`.
    """

    emitted: float
    cycles: float
    accepted: np.ndarray
    by_root: np.ndarray | None
    reliability: np.ndarray


def drafted_text(one: OneText, cycle: Cycle, promised: np.ndarray, hits: np.ndarray, first: int = 1) -> DraftedText:
    """What a draft does on a text with a static tree or a draw policy.

    Args:
        one: the text with its draws.
        cycle: tree, verifier and draw rule.
        promised: (D, n, `RANKS`) the draft's largest probabilities at each position, by depth; see `ranked`.
        hits: (D, n, `RANKS`) the target's probabilities of the same tokens.
        first: the position where the first cycle starts.
    """
    kept = cycle.kept(one)
    deepest, chain = kept.shape[1], CycleChain(kept, first)
    emitted, cycles, _, accepted = _counted(chain, deepest)
    starts = _whole(chain, deepest).starts
    whole = len(starts)
    tables = np.zeros((deepest - 1, RANKS, BINS, 3))
    for depth in range(deepest - 1):
        row, span = min(depth, len(promised) - 1), slice(depth, depth + whole)
        tables[depth] = reliability(starts * kept[:whole, depth], promised[row, span], hits[row, span])
    return DraftedText(emitted, cycles, accepted, kept[first:whole].sum(1), tables)


def followed_text(
    cycles: list[tuple[int, int, int]], length: int, deepest: int, promised: np.ndarray, hits: np.ndarray
) -> DraftedText:
    """What a draft does on a text of `length` tokens with dynamic trees, whose cycles were followed.

    Args:
        cycles: (start, number of accepted tokens, depth of the draft) of each cycle.
        length: tokens of the text.
        deepest: the depth that no draft exceeds; a cycle counts if this many tokens and one more are left.
        promised: see `drafted_text`.
        hits: see `drafted_text`.
    """
    counted = [(start, accepted, depth) for start, accepted, depth in cycles if start + deepest < length]
    accepted = np.bincount([one for _, one, _ in counted], minlength=deepest + 1).astype(np.float64)
    tables = np.zeros((deepest, RANKS, BINS, 3))
    for depth in range(deepest):
        row = min(depth, len(promised) - 1)
        there = [start + depth for start, kept, drafted in counted if depth <= kept and depth < drafted]
        tables[depth] = reliability(np.ones(len(there)), promised[row, there], hits[row, there])
    emitted = float(accepted @ np.arange(1, deepest + 2))
    return DraftedText(emitted, float(len(counted)), accepted, None, tables)


def drafted(tree: Tree) -> str:
    """A tree in words."""
    return f"chain of {tree.budget}" if tree.is_chain else f"tree of {tree.budget}, {tree.max_depth} deep"


def ranks_of(text: TargetText) -> Int[np.ndarray, "depths n"]:
    """Rank of each token of a text among the draft's candidates, the most probable first; -1 if there is none."""
    tokens = text.tokens[:, None]
    ranks = []
    for rows in text.q:
        own = np.take_along_axis(rows, tokens, 1)
        before = (rows > own) | ((rows == own) & (np.arange(rows.shape[1]) < tokens))
        ranks.append(np.where(own[:, 0] > 0, before.sum(1), -1))
    return np.array(ranks)
