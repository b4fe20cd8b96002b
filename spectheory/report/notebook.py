"""HTML of records and trees for notebooks, without scripts or stylesheets."""

from __future__ import annotations

from html import escape

from spectheory.core.tree import Tree
from spectheory.report.tables import TextTable

STEP, ROW, MARGIN = 44, 16, 10
"""Pixels between depths, between leaves, and around the drawing."""
MOST_NODES = 400
"""A tree with more drafted nodes than this is described in words instead of drawn."""


def tree_svg(tree: Tree) -> str:
    """The tree from left to right, children by rank from top to bottom."""
    if tree.budget > MOST_NODES:
        return f"<pre>{escape(repr(tree))}</pre>"
    x, y = MARGIN + STEP * tree.depth, MARGIN + ROW * tree.rows
    edges = "".join(
        f'<line x1="{x[parent]}" y1="{y[parent]:g}" x2="{x[node]}" y2="{y[node]:g}"/>'
        for node, parent in enumerate(tree.parent.tolist())
        if node
    )
    dots = "".join(f'<circle cx="{a}" cy="{b:g}" r="3"/>' for a, b in zip(x, y, strict=True))
    width, height = 2 * MARGIN + STEP * tree.max_depth, 2 * MARGIN + ROW * tree.rows.max()
    return (
        f'<svg role="img" aria-label="Draft tree of {tree.budget} nodes, {tree.max_depth} deep" width="{width}" '
        f'height="{height:g}" stroke="currentColor" fill="currentColor">{edges}{dots}</svg>'
    )


def table_html(table: TextTable) -> str:
    """A table with its title and its note."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<table><caption>{escape(table.title)}</caption><tr>{head}</tr>{rows}</table>{note}"
