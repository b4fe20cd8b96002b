"""A tree as a figure: one SVG string with units on its axes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from matplotlib.ticker import MaxNLocator

from spectheory.core.tree import Tree
from spectheory.report.svg import BLUE, INK, PAPER, panels, styled, to_svg

MOST_LABELS = 120
"""Maximum number of labelled nodes in a tree drawing. Nodes with the highest reach are labelled first."""
PATCH = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.8}
"""The background of a label, which keeps it legible."""


@styled
def tree_figure(tree: Tree, reach: Float[np.ndarray, " nodes"]) -> str:
    """The tree from left to right. Labels give the reach of a node in percent; edges widen with reach."""
    height = tree.rows
    leaves = int(height.max()) + 1
    figure, (axes,) = panels(height_inches=float(np.clip(1.0 + 0.15 * leaves, 1.4, 16)))
    depth, x = tree.depth, tree.depth.astype(float)
    for node in np.argsort(reach[1:], kind="stable") + 1:
        ends = [tree.parent[node], node]
        axes.plot(x[ends], height[ends], color=BLUE, linewidth=0.5 + 6 * reach[node], alpha=0.75)
    axes.plot(x, height, "o", color=INK, markersize=2.6, linestyle="none")
    every = int(np.ceil(tree.max_depth / 20)) or 1
    for node in np.argsort(-reach[1:], kind="stable")[:MOST_LABELS] + 1:
        if depth[node] % every == 0:
            said, point = f"{100 * reach[node]:.0f}", (float(x[node]), float(height[node]))
            axes.annotate(said, point, (4, 0), textcoords="offset points", va="center", fontsize=7.5, bbox=PATCH)
    axes.set(xlim=(-0.2, max(tree.max_depth, 1) + 0.5), ylim=(leaves - 0.4, -0.6), xlabel="depth, drafted tokens")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_title("The chosen tree: % of cycles in which each node is accepted")
    return to_svg(figure, f"Draft tree of {tree.budget} nodes, {tree.max_depth} deep")
