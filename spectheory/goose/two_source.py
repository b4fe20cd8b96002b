"""`SpineTree`, a tree of two sources, with its acceptance rates and its block efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from jaxtyping import Bool

from spectheory.core.checks import check_probabilities
from spectheory.core.errors import InputError
from spectheory.core.tree import LARGEST_TREE, Tree

Siblings = Literal["sequential", "exclusive"]

ROUNDING = 1e-9
"""The sum of the rates of exclusive siblings may be above 1 by this much, because of rounding."""


def sibling_rule(p_branch: float, siblings: Siblings) -> tuple[float, int]:
    """The rate of a branch divided by the rate of the previous branch, and the maximum number of branches of a node.

    Raises:
        InputError: `siblings` is neither "sequential" nor "exclusive".
    """
    if siblings == "sequential":
        return 1.0 - p_branch, LARGEST_TREE
    if siblings == "exclusive":
        return 1.0, int((1 + ROUNDING) / p_branch) if p_branch * LARGEST_TREE > 1 else LARGEST_TREE
    raise InputError(f'siblings must be "sequential" or "exclusive", got {siblings!r:.80}')


@dataclass(frozen=True, eq=False)
class SpineTree:
    """A tree of two sources.

    If a node is accepted, its children are accepted with these rates:

    - The spine token of a spine node, which is tried first: p_spine.
    - Branch j (0, 1, ...) of a spine node: (1 - p_spine) p_branch (1 - p_branch)^j for sequential siblings,
      (1 - p_spine) p_branch for exclusive siblings.
    - Branch j of a node that is not on the spine: the same without the factor 1 - p_spine.

    Every spine node has this factor, even if its spine token is not in the tree. The reason: the branches are tokens of
    the other source, different from the spine token, and drafting fewer tokens does not make them more probable.

    Attributes:
        tree: the tree.
        is_spine: whether each node is on the spine; the root is on the spine.
        block_efficiency: E[tau], the bonus token included.
    """

    tree: Tree
    is_spine: Bool[np.ndarray, " nodes"]
    block_efficiency: float

    @classmethod
    def valued(
        cls,
        tree: Tree,
        is_spine: Sequence[bool] | Bool[np.ndarray, " nodes"],
        p_spine: float,
        p_branch: float,
        *,
        siblings: Siblings = "sequential",
    ) -> Self:
        """Compute the block efficiency of any tree of two sources, given its nodes on the spine.

        Args:
            tree: any tree.
            is_spine: (budget + 1,) bool, true for the root and for a chain of nodes that starts at the root.
            p_spine: the rate of a spine token.
            p_branch: the rate of a branch.
            siblings: "sequential" or "exclusive", model (2) or (3) of `spectheory.goose`.

        Raises:
            InputError: a rate is not a probability, `is_spine` is not a chain from the root, or the rates of the
                exclusive branches of a node sum to more than 1.
        """
        marks = np.array(is_spine, dtype=bool)
        marks.setflags(write=False)
        check_probabilities(p_spine=p_spine, p_branch=p_branch)
        again, most = sibling_rule(float(p_branch), siblings)
        if marks.shape != tree.parent.shape or not marks[0]:
            raise InputError(
                f"is_spine must have one entry for each of the {len(tree.parent)} nodes, and be true for the root"
            )
        spine = np.flatnonzero(marks)
        if not np.array_equal(tree.parent[spine[1:]], spine[:-1]):
            raise InputError(
                f"is_spine must mark a chain: each marked node must be the child of the marked node before it, got the "
                f"nodes {spine[:20].tolist()}"
            )
        reach, branches = np.ones(len(tree.parent)), np.zeros(len(tree.parent), np.int64)
        for node in range(1, len(reach)):
            above = tree.parent[node]
            if marks[node]:
                rate = p_spine
            else:
                if branches[above] >= most:
                    raise InputError(
                        f"node {above} must have at most {most} exclusive branches, because p_branch={p_branch} for "
                        'each may not sum to more than 1: use fewer branches, or siblings="sequential"'
                    )
                rate = p_branch * again ** branches[above] * (1 - p_spine if marks[above] else 1)
                branches[above] += 1
            reach[node] = reach[above] * float(rate)
        return cls(tree, marks, float(reach.sum()))
