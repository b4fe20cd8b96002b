"""Terminal reports as rich renderables. Nothing here prints."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from rich.text import Text
from rich.tree import Tree as RichTree

from spectheory.core.tree import Tree

COMMON, RARE = 0.25, 0.05
"""A node is bold if its reach is at least `COMMON`, and dim if it is below `RARE`."""
PER_LINE = 6
"""Maximum number of nodes on one line."""


def tree_drawing(tree: Tree, reach: Float[np.ndarray, " nodes"], source: str = "") -> RichTree:
    """A drawing of `tree` with the rank and the reach of each node.

    In the drawing, `#0 0.71 · #0 0.52` is a node and its only child, and `#1 0.08, #2 0.04` are sibling leaves.

    Args:
        tree: the tree.
        reach: (budget + 1,) probability that each node is accepted.
        source: a clause on where the reach is from, such as "nodes by the rates"; empty for a tree of no plan.
    """
    drawn = f"last committed token, {tree.budget} drafted after it, {tree.max_depth} deep"
    lines = [Text(f"{drawn}; {source}" if source else drawn)]
    branches = [RichTree(lines[0], guide_style="dim")]
    for node in range(1, tree.budget + 1):
        parent, rank = int(tree.parent[node]), int(tree.rank[node])
        siblings = tree.children(parent)
        label = Text(f"#{rank} {reach[node]:.2f}", style=_style(reach[node]))
        if parent and len(siblings) == 1:
            joined, mark = parent, " · "
        elif rank and not len(tree.children(node)) and not len(tree.children(siblings[rank - 1])):
            joined, mark = siblings[rank - 1], ", "
        else:
            lines.append(label)
            branches.append(branches[parent].add(label))
            continue
        if lines[joined].plain.count(mark.strip()) % PER_LINE == PER_LINE - 1:
            mark = mark.rstrip() + "\n"
        lines[joined].append(mark, style="dim").append_text(label)
        lines.append(lines[joined])
        branches.append(branches[joined])
    return branches[0]


def _style(reach: float) -> str:
    return "bold" if reach >= COMMON else "dim" if reach < RARE else ""
