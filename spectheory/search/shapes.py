"""Block efficiency by budget of the best tree, the chain and the full k-ary trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.tree import Tree
from spectheory.search import best_trees
from spectheory.yields import block_efficiency


@dataclass(frozen=True, eq=False)
class Shapes:
    """What trees of different shapes yield at every budget.

    Attributes:
        trees: the best tree of every budget, from 0 on.
        best: (budget + 1,) block efficiency of the best trees.
        chain: (budget + 1,) block efficiency of the chains.
        k_ary: the full trees with the same fan-out, at least 2, at every node above their depth, and their block
            efficiency.
    """

    trees: tuple[Tree, ...]
    best: np.ndarray
    chain: np.ndarray
    k_ary: tuple[tuple[Tree, float], ...]


def shapes(acceptance: Acceptance, budget: int, *, max_depth: int | None = None) -> Shapes:
    """The yields of the best trees, the chains and the full k-ary trees of at most `budget` drafted nodes.

    Args:
        acceptance: rates by depth and rank.
        budget: maximum number of drafted nodes, at least 1.
        max_depth: the greatest depth of a node of a best tree or a chain; None sets no limit. Full trees have none.

    Raises:
        InputError: an argument is out of range, or the search needs more memory than is available.
    """
    trees = best_trees(acceptance, budget, max_depth=max_depth)
    longest = Tree.chain(min(budget, budget if max_depth is None else max_depth))
    chains = [Tree.chain(min(nodes, longest.budget)) for nodes in range(budget + 1)]
    full = [
        tree
        for fanout in range(2, acceptance.ranks + 1)
        for tree in takewhile(lambda tree: tree.budget <= budget, map(partial(Tree.k_ary, fanout), count(1)))
    ]
    return Shapes(
        tuple(trees),
        np.array([block_efficiency(tree, acceptance) for tree in trees]),
        np.array([block_efficiency(chain, acceptance) for chain in chains]),
        tuple((tree, block_efficiency(tree, acceptance)) for tree in full),
    )
