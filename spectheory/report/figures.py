"""Figures of acceptance, latency, plans and comparisons. Each is one SVG string with units on its axes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from spectheory.core.acceptance import Acceptance
from spectheory.core.tree import Tree
from spectheory.hardware.latency import Latency
from spectheory.report.svg import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    PAPER,
    PURPLE,
    RED,
    panels,
    styled,
    to_svg,
)
from spectheory.results.plan_comparison import PlanComparison

SERIES = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
ACCOUNTS = {"theory": BLUE, "simulation": GREY, "measurement": ORANGE}
MOST_RANKS = 8
"""Maximum number of ranks that are drawn."""
MOST_LABELS = 120
"""Maximum number of labelled nodes in a tree drawing. Nodes with the highest reach are labelled first."""
SMALLEST_SHARE = 1e-3
"""The last bar is for the largest number of accepted tokens that has at least this share of the cycles."""


@styled
def acceptance_figure(acceptance: Acceptance) -> str:
    """Rate by rank on a log scale, one line for each depth, with bars for 95% intervals."""
    figure, (axes,) = panels(height_inches=3.1)
    depths, ranks = min(acceptance.depths, len(SERIES)), min(acceptance.ranks, MOST_RANKS)
    table = acceptance.table[:depths, :ranks]
    limits = None if acceptance.trials is None else acceptance.interval()
    for d, row in enumerate(table):
        x = np.arange(ranks) + 0.09 * (d - (depths - 1) / 2)
        seen = row > 0
        label = f"depth {d + 1}" + (" and deeper" if d == acceptance.depths - 1 else "")
        axes.plot(x[seen], row[seen], marker=MARKERS[d], color=SERIES[d], markersize=4, linewidth=1, label=label)
        if limits is not None:
            axes.vlines(x, limits[0][d, :ranks], limits[1][d, :ranks], color=SERIES[d], linewidth=1.4, alpha=0.6)
    smallest = 0.8 * table[table > 0].min(initial=1.0)
    axes.set(yscale="log", ylim=(10.0 ** max(-4, np.floor(np.log10(smallest))), 1))
    axes.set(xlabel="rank of the child among its siblings", ylabel="accepted, % of visits")
    axes.set_xticks(range(ranks), [f"#{r}" for r in range(ranks)])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g}%"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_title("How often the child of each rank is the accepted one")
    axes.legend(ncols=2 if depths > 3 else 1)
    return to_svg(figure, "Acceptance rate by rank of the child, one line for each depth")


@styled
def latency_figure(latency: Latency) -> str:
    """Milliseconds per forward against its tokens, one panel for each model and one line for each context."""
    figure, axes = panels(columns=2, height_inches=2.7)
    tokens = latency.tokens
    powers = [t for t in tokens if t & (t - 1) == 0]
    models = (
        ("Target forward", latency.target_seconds, latency.target_spread_seconds),
        ("Draft forward", latency.draft_seconds, latency.draft_spread_seconds),
    )
    for panel, (title, seconds, spread) in zip(axes, models, strict=True):
        for c, context in enumerate(latency.contexts):
            colour, marker = SERIES[c % len(SERIES)], MARKERS[c % len(MARKERS)]
            panel.plot(tokens, 1e3 * seconds[c], color=colour, marker=marker, markersize=3, label=f"{context:,}")
            if spread is not None:
                low, high = (1e3 * (seconds[c] + side * spread[c] / 2) for side in (-1, 1))
                panel.fill_between(tokens, low, high, color=colour, alpha=0.2, linewidth=0)
        panel.set_xscale("log", base=2)
        panel.set_xticks(powers, [f"{t}" if len(powers) < 8 or i % 2 == 0 else "" for i, t in enumerate(powers)])
        panel.set_ylim(0, max(panel.get_ylim()[1], 1e-3))
        panel.set(title=title, xlabel="tokens per forward")
    axes[0].set_ylabel("ms, median and quartiles")
    axes[0].legend(title="context")
    return to_svg(figure, "Milliseconds per forward against tokens per forward, target and draft")


@styled
def tree_figure(tree: Tree, reach: Float[np.ndarray, " nodes"], source: str = "") -> str:
    """The tree from left to right. Labels give the reach of a node in percent; edges widen with reach.

    `source` is a clause for the title on where the reach is from, such as "nodes by the rates".
    """
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
            _label(axes, f"{100 * reach[node]:.0f}", float(x[node]), float(height[node]), size=7.5)
    axes.set(xlim=(-0.2, max(tree.max_depth, 1) + 0.5), ylim=(leaves - 0.4, -0.6), xlabel="depth, drafted tokens")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_title("The chosen tree: % of cycles in which each node is accepted" + (f",\n{source}" if source else ""))
    return to_svg(figure, f"Draft tree of {tree.budget} nodes, {tree.max_depth} deep")


@styled
def accepted_figure(comparison: PlanComparison) -> str:
    """Share of cycles by number of accepted tokens, one bar for each account."""
    figure, (axes,) = panels(height_inches=2.7)
    accounts = comparison.accounts
    width = 0.8 / len(accounts)
    last = max(np.flatnonzero(a.accepted >= SMALLEST_SHARE).max(initial=0) for a in accounts)
    for i, account in enumerate(accounts):
        share = account.accepted[: last + 1]
        x = np.arange(len(share)) + width * (i - (len(accounts) - 1) / 2)
        axes.bar(x, share, width, color=ACCOUNTS[account.name], label=account.name, edgecolor=PAPER, linewidth=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="accepted drafted tokens in one cycle", ylabel="cycles", xlim=(-0.6, last + 0.6))
    axes.set_title("Accepted tokens per cycle")
    figure.legend(loc="outside lower center", ncols=3)
    return to_svg(figure, "Share of cycles by number of accepted tokens")


def _label(axes: Axes, text: str, x: float, y: float, *, size: float = 8.5) -> None:
    """Write `text` to the right of the point (x, y), on a background patch that keeps it legible."""
    patch = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.8}
    axes.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", fontsize=size, bbox=patch)
