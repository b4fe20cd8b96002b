"""Draw docs/picture.svg, the picture of the README: a planned tree with its reach, and predicted beside measured tau.

spectheory trace --count 24 --new-tokens 64 --out build/picture
sed "s#$PWD/##" build/picture/acceptance.json > docs/picture/acceptance.json
python docs/generate_picture.py

The tree is the best one of 16 nodes for these rates. The points are the records of a real pair.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import spectheory as st
from spectheory.core.files import write_whole
from spectheory.report.svg import BLUE, GREY, INK, MUTED, styled, to_svg

DOCS = Path(__file__).parent
RATES, PICTURE = DOCS / "picture" / "acceptance.json", DOCS / "picture.svg"
PAGE = runpy.run_path(str(DOCS / "pictures" / "predicted_and_measured.py"))
MEASURED: dict[tuple[str, float], np.ndarray] = PAGE["rows"]()
BUDGET, NAMED = 16, 0.03
"""Nodes of the tree, and the least reach of a node whose label is drawn."""


@styled
def picture() -> str:
    """The picture as SVG, on white, so that it can be read on a dark page too."""
    figure = Figure(figsize=(9.6, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    rates = st.Acceptance.load(RATES).smoothed()
    tree = st.best_tree(rates, BUDGET)
    draw_tree(left, tree, np.asarray(st.reach(tree, rates)), st.block_efficiency(tree, rates))
    draw_points(right)
    return to_svg(figure, "A planned draft tree with the reach of its nodes, and predicted beside measured tau")


def draw_tree(axes: Axes, tree: st.Tree, reach: np.ndarray, tau: float) -> None:
    """The tree from left to right. Lines are as wide as the reach of their node, which labels give in percent."""
    x, y = tree.depth.astype(float), tree.rows.astype(float)
    for node in range(1, len(tree.parent)):
        ends = [tree.parent[node], node]
        axes.plot(x[ends], y[ends], color=BLUE, linewidth=0.6 + 8 * reach[node], alpha=0.7)
    axes.plot(x, y, "o", color=INK, markersize=3.4, linestyle="none")
    for node in np.flatnonzero(reach >= NAMED)[1:]:
        spot = (x[node], y[node])
        axes.annotate(f"{100 * reach[node]:.0f}%", spot, (4, -5), textcoords="offset points", va="top", fontsize=8.5)
    axes.set(xlim=(-0.15, tree.max_depth + 0.5), ylim=(y.max() + 0.8, -0.5), yticks=[], xlabel="depth, drafted tokens")
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_title(f"The best {BUDGET} drafts: reach by measured rates, tau {tau:.2f}")


def draw_points(axes: Axes) -> None:
    """Measured tau of each combination of drafter and verifier against tau predicted from other prompts."""
    largest = max(rows[:, [0, 2]].max() for rows in MEASURED.values()) * 1.05
    axes.plot([1, largest], [1, largest], color=MUTED, linewidth=0.8)
    for (texts, temperature), rows in MEASURED.items():
        style = {"color": PAGE["COLOURS"][temperature], "markersize": 4.5, "alpha": 0.75, "linestyle": "none"}
        label = f"{texts}, T={temperature:g}"
        axes.plot(rows[:, 2], rows[:, 0], PAGE["MARKERS"][texts], label=label, **style)
    axes.set(xlim=(1, largest), ylim=(1, largest), aspect="equal", xlabel="tau predicted", ylabel="tau measured")
    axes.set_title(f"{sum(map(len, MEASURED.values()))} measured decoders")
    axes.legend(loc="lower right")
    axes.tick_params(color=GREY)


if __name__ == "__main__":
    write_whole(PICTURE, picture())
