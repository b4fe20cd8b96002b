"""Texts of greedy decoding, on which nothing is left to chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from spectheory.core.checks import check_array, check_whole
from spectheory.core.errors import InputError
from spectheory.core.machine import compiled
from spectheory.core.tree import Tree


@dataclass(frozen=True, eq=False)
class GreedyText:
    """A text of n tokens that greedy decoding of the target generated, as the draft ranks it.

    Attributes:
        ranks: rank of each token among the draft's candidates at its position, -1 where it is none of them.
            (D, n) for a draft whose ranks depend on how deep in the cycle it is; the last row holds for deeper nodes.

        candidates: number of candidates that were ranked; wider trees cannot be replayed. None if all tokens were.

    Raises:
        InputError: the ranks are not whole numbers, or not between -1 and `candidates` - 1.
    """

    ranks: Int[np.ndarray, "depths n"]
    candidates: int | None = None

    def __post_init__(self) -> None:
        ranks = check_array("ranks", self.ranks)
        if ranks.ndim not in (1, 2) or not len(ranks) or ranks.dtype.kind not in "iu" or (ranks < -1).any():
            raise InputError(f"ranks must be whole numbers >= -1 of shape (n,) or (depths, n), got {ranks!r:.80}")
        if self.candidates is not None:
            check_whole("candidates", self.candidates, 1, ": give the number of ranked candidates, or None for all")
            if ranks.size and ranks.max() >= self.candidates:
                raise InputError(
                    f"ranks must be below candidates={self.candidates}, the number of ranked candidates, and -1 for a "
                    f"token that is none of them, got {ranks.max()}"
                )
        object.__setattr__(self, "ranks", ranks if ranks.ndim == 2 else ranks[None])

    def __len__(self) -> int:
        return self.ranks.shape[1]

    def perfect_at(self, depth: int) -> GreedyText:
        """The text of a draft that ranks every token first where it drafts children of a node at `depth`."""
        rows = np.minimum(np.arange(max(depth + 2, len(self.ranks))), len(self.ranks) - 1)
        ranks = self.ranks[rows]
        ranks[depth] = 0
        return GreedyText(ranks, self.candidates)


def passed_greedily(text: GreedyText, tree: Tree) -> Shaped[np.ndarray, "n nodes"]:
    """1 where a cycle from each position keeps a node of the tree, 0 where not."""
    _require_ranked(text, tree)
    children = np.full((tree.budget + 1, int(tree.rank.max()) + 1), -1)
    drafted = np.arange(1, tree.budget + 1)
    children[tree.parent[drafted], tree.rank[drafted]] = drafted
    return compiled(_passed)(text.ranks, children)


def _passed(ranks: np.ndarray, children: np.ndarray) -> np.ndarray:
    """`passed_greedily` by a walk down the tree from each position; children[node, rank] is a node, or -1."""
    depths, n = ranks.shape
    passed = np.zeros((n, len(children)))
    for start in range(n):
        node, depth = 0, 0
        while node >= 0:
            passed[start, node] = 1
            if start + depth == n:
                break
            rank = ranks[min(depth, depths - 1), start + depth]
            node = children[node, rank] if 0 <= rank < children.shape[1] else -1
            depth += 1
    return passed


def passed_in_expectation(text: GreedyText, tree: Tree, closer: float) -> Shaped[np.ndarray, "n nodes"]:
    """The mean of `passed_greedily` over drafts that rank each token first with probability `closer`.

    They do so independently at each position, and rank it as recorded otherwise. A sequence of cycles reads each
    position once, so the expected number of cycles is exact too.
    """
    _require_ranked(text, tree)
    n = len(text)
    passed = np.zeros((n, tree.budget + 1))
    passed[:, 0] = 1
    for node in range(1, tree.budget + 1):
        parent, rank = tree.parent[node], tree.rank[node]
        above = int(tree.depth[parent])
        if above < n:
            hits = text.ranks[min(above, len(text.ranks) - 1)] == rank
            edge = (1 - closer) * hits + closer * (rank == 0)
            passed[: n - above, node] = passed[: n - above, parent] * edge[above:]
    return passed


def _require_ranked(text: GreedyText, tree: Tree) -> None:
    """Check that as many candidates are ranked as a node of the tree has children. Raises InputError if not."""
    widest = int(tree.rank.max()) + 1
    if text.candidates is not None and widest > text.candidates and tree.budget:
        raise InputError(
            f"tree has {widest} children at a node, but only {text.candidates} candidates are ranked at each position: "
            "record more candidates, or replay a narrower tree"
        )
