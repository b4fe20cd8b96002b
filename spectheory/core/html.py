"""HTML of trees and tables for notebooks, without scripts or stylesheets."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

STEP, ROW, MARGIN = 44, 16, 10
"""Pixels between depths, between leaves, and around the drawing."""


def tree_svg(parent: np.ndarray, depth: np.ndarray, rows: np.ndarray) -> str:
    """SVG of a tree, given parent, depth and `Tree.rows` of each node, (budget + 1,) each. The root is at the left."""
    x, y = MARGIN + STEP * depth, MARGIN + ROW * rows
    edges = "".join(
        f'<line x1="{x[above]}" y1="{y[above]:g}" x2="{x[node]}" y2="{y[node]:g}"/>'
        for node, above in enumerate(parent.tolist())
        if node
    )
    dots = "".join(f'<circle cx="{a}" cy="{b:g}" r="3"/>' for a, b in zip(x, y, strict=True))
    label = f"Draft tree of {len(parent) - 1} nodes, {depth.max()} deep"
    return (
        f'<svg role="img" aria-label="{label}" width="{x.max() + MARGIN}" height="{y.max() + MARGIN:g}" '
        f'stroke="currentColor" fill="currentColor">{edges}{dots}</svg>'
    )


def table_html(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table with a title."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>"
