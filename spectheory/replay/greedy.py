"""Replay of greedy decoding: the longest match of a tree with the text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.replay.cycles import compiled


@dataclass(frozen=True, eq=False)
class GreedyText:
    """A text of n tokens that greedy decoding of the target generated, as the draft ranks it.

    Attributes:
        ranks: (n,) rank of each token among the draft's candidates at its position, -1 where it is none of them.
            (D, n) for a draft whose ranks depend on how deep in the cycle it is; the last row holds for deeper nodes.

        candidates: number of candidates that were ranked; wider trees cannot be replayed. None if all tokens were.

    Raises:
        InputError: the ranks are not whole numbers, or below -1.
    """

    ranks: np.ndarray
    candidates: int | None = None

    def __post_init__(self) -> None:
        ranks = np.asarray(self.ranks)
        if ranks.ndim not in (1, 2) or ranks.dtype.kind not in "iu" or (ranks < -1).any():
            raise InputError(f"ranks must be whole numbers >= -1 of shape (n,) or (depths, n), got {ranks!r:.80}")
        object.__setattr__(self, "ranks", ranks if ranks.ndim == 2 else ranks[None])

    @classmethod
    def of_accepted(cls, lengths: np.ndarray) -> GreedyText:
        """A text of which only the accepted length of a long chain is known, (n,) at each position.

        Other people's policy-free records hold this. Only chains can be replayed on it.

        Raises:
            InputError: a length is less than the length before it, minus 1.
        """
        lengths = np.asarray(lengths)
        hit = lengths > 0
        short = np.flatnonzero(lengths[1:] < lengths[:-1] - 1)
        if len(short):
            at = int(short[0])
            raise InputError(
                f"lengths[{at + 1}] must be at least lengths[{at}] - 1 = {lengths[at] - 1}, got {lengths[at + 1]}; "
                "the rest of an accepted chain is accepted at the next position: record with a chain that is longer "
                "than all accepted lengths"
            )
        return cls(np.where(hit, 0, -1), candidates=1)

    def __len__(self) -> int:
        return self.ranks.shape[1]


def kept_greedily(text: GreedyText, tree: Tree) -> np.ndarray:
    """(n, L + 1) 1 where a cycle from each position keeps at least 0..L tokens of the text, 0 where not."""
    widest = int(tree.rank.max()) + 1
    if text.candidates is not None and widest > text.candidates and tree.budget:
        raise InputError(
            f"tree has {widest} children at a node, but only {text.candidates} candidates are ranked at each position: "
            "record more candidates, or replay a narrower tree"
        )
    children = np.full((tree.budget + 1, widest), -1)
    drafted = np.arange(1, tree.budget + 1)
    children[tree.parent[drafted], tree.rank[drafted]] = drafted
    return compiled(_kept)(text.ranks, children, tree.max_depth)


def _kept(ranks: np.ndarray, children: np.ndarray, deepest: int) -> np.ndarray:
    """`kept_greedily` by a walk down the tree from each position; children[node, rank] is a node, or -1."""
    depths, n = ranks.shape
    kept = np.zeros((n, deepest + 1))
    for start in range(n):
        node, depth = 0, 0
        while node >= 0:
            kept[start, depth] = 1
            if start + depth == n:
                break
            rank = ranks[min(depth, depths - 1), start + depth]
            node = children[node, rank] if 0 <= rank < children.shape[1] else -1
            depth += 1
    return kept
