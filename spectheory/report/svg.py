"""The canvas of every figure: palette, text sizes, panels, and reproducible SVG output."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from io import StringIO

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, FAINT, PAPER = "#1f2328", "#6e7781", "#d5d9de", "#ffffff"
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#3a7bd5", "#d9702a", "#27996b", "#9a63d1", "#d1495b", "#848d97"
"""Six colours legible on white and on black, in order of use. Series also differ in marks or dashes."""
MARKERS = "osD^vP"

WIDTH_INCHES = 5.4

_COLOURS = {
    INK: ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"),
    MUTED: ("axes.edgecolor", "xtick.color", "ytick.color"),
    FAINT: ("grid.color",),
    PAPER: ("figure.facecolor", "savefig.facecolor"),
}
_OURS = {name: colour for colour, names in _COLOURS.items() for name in names}
styled = matplotlib.style.context(["default", str(files("spectheory") / "data" / "figure.mplstyle"), _OURS])
"""Decorator for drawing functions: it sets matplotlib's defaults and ours, whatever the user's settings are."""


def panels(columns: int = 1, rows: int = 1, *, height_inches: float, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes, row by row. In a single column, all axes share the x axis."""
    figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=columns == 1, sharey=sharey)
    return figure, list(axes.flat)


def to_svg(figure: Figure, label: str) -> str:
    """The `<svg>` element of `figure`, without prologue or metadata. A screen reader reads `label` aloud.

    The remaining identifiers are hashes of their content, so several figures can share one page.
    """
    buffer = StringIO()
    figure.savefig(
        buffer, format="svg", bbox_inches="tight", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
    )
    text = buffer.getvalue()
    text = text[text.index("<svg ") :].replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
    return re.sub(r'<g id="[^"]*">', "<g>", text)
