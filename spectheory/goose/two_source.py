"""What a tree of two sources is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from spectheory.core.checks import check_probability
from spectheory.core.errors import InputError
from spectheory.core.tree import LARGEST_TREE, Tree

Siblings = Literal["sequential", "exclusive"]

ROUNDING = 1e-9
"""How far above 1 the rates of exclusive siblings may sum through rounding."""


def sibling_rule(p_branch: float, siblings: Siblings) -> tuple[float, int]:
    """(ratio of a branch's rate to that of the sibling before, most branches at a node).

    Raises:
        InputError: `siblings` is neither of the two names.
    """
    if siblings == "sequential":
        return 1.0 - p_branch, LARGEST_TREE
    if siblings == "exclusive":
        return 1.0, int((1 + ROUNDING) / p_branch) if p_branch * LARGEST_TREE > 1 else LARGEST_TREE
    raise InputError(f'siblings must be "sequential" or "exclusive", got {siblings!r:.80}')


@dataclass(frozen=True, eq=False)
class SpineTree:
    """A tree of two sources.

    The rates of the children of an accepted node:

    - the spine token of a spine node, tried first: p_spine;
    - branch j (0, 1, ...) of a spine node: (1 - p_spine) p_branch (1 - p_branch)^j where siblings are `sequential`,
      (1 - p_spine) p_branch where they are `exclusive`;
    - branch j of an off-spine node: the same without the factor 1 - p_spine.

    The factor is there at every spine node, also where the tree leaves its spine token out: the branches are the other
    source's tokens, apart from the spine's, and what is drafted does not change how likely they are.

    Attributes:
        tree: its shape.
        is_spine: (budget + 1,) bool, whether each node is on the spine; the root is.
        block_efficiency: E[tau], the bonus token included.
    """

    tree: Tree
    is_spine: np.ndarray
    block_efficiency: float

    @classmethod
    def valued(
        cls,
        tree: Tree,
        is_spine: Sequence[bool] | np.ndarray,
        p_spine: float,
        p_branch: float,
        *,
        siblings: Siblings = "sequential",
    ) -> Self:
        """Any tree of two sources, with its block efficiency.

        Raises:
            InputError: a rate is no probability, `is_spine` is no chain from the root, or a node has more exclusive
                branches than sum to 1.
        """
        marks = np.array(is_spine, dtype=bool)
        marks.setflags(write=False)
        reach = two_source_reach(tree, marks, p_spine, p_branch, siblings)
        return cls(tree, marks, float(reach.sum()))


def two_source_reach(
    tree: Tree, is_spine: np.ndarray, p_spine: float, p_branch: float, siblings: Siblings
) -> np.ndarray:
    """(budget + 1,) float64: the probability that each node is accepted; 1 for the root. Raises as `valued` does."""
    check_probability("p_spine", p_spine)
    check_probability("p_branch", p_branch)
    again, most = sibling_rule(float(p_branch), siblings)
    if is_spine.shape != tree.parent.shape or not is_spine[0]:
        raise InputError(f"is_spine must mark the root and have one entry for each of {len(tree.parent)} nodes")
    spine = np.flatnonzero(is_spine)
    if not np.array_equal(tree.parent[spine[1:]], spine[:-1]):
        raise InputError(f"is_spine must mark a chain from the root, got nodes {spine[:20].tolist()}")
    reach, branches = np.ones(len(tree.parent)), np.zeros(len(tree.parent), np.int64)
    for node in range(1, len(reach)):
        above = tree.parent[node]
        if is_spine[node]:
            rate = p_spine
        else:
            if branches[above] >= most:
                raise InputError(f"node {above} has more than {most} exclusive branches of p_branch={p_branch}")
            rate = p_branch * again ** branches[above] * (1 - p_spine if is_spine[above] else 1)
            branches[above] += 1
        reach[node] = reach[above] * float(rate)
    return reach
