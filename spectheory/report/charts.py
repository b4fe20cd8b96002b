"""Pieces of Altair charts for the apps in `notebooks/apps`: colours, data and trees.

Charts take their text colour and background from the page, so that they can be read in light and in dark mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import numpy as np
from jaxtyping import Float

from spectheory.core.tree import Tree
from spectheory.report.svg import BLUE, GREEN, GREY, ORANGE, PURPLE, RED

AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart
ANSWERS = {"off": GREY, "chain": ORANGE, "tree": BLUE}
"""Colours of the answers of a plan."""
SERIES = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
"""Colours of series, in order of use."""
HEIGHT = 300
"""Height of a chart in pixels."""


def rows(records: Iterable[Mapping[str, Any]]) -> alt.Data:
    """Data of a chart, from one dictionary for each mark."""
    plain = [{name: _plain(value) for name, value in record.items()} for record in records]
    return alt.Data(values=plain)


def framed(chart: AnyChart, title: str, *, height: int = HEIGHT) -> AnyChart:
    """The chart with a title at the left, as wide as the page allows."""
    heading = alt.TitleParams(title, anchor="start", fontSize=13)
    sized = chart.properties(title=heading, width="container", height=height)
    return sized.configure(background="transparent").configure_view(stroke=None)


def grid_html(parts: Iterable[str], *, least_rem: int = 24) -> str:
    """HTML that puts the parts beside each other, each at least `least_rem` wide, or below each other on a phone."""
    columns = f"repeat(auto-fit, minmax(min(100%, {least_rem}rem), 1fr))"
    cells = "".join(f'<div style="min-width: 0">{part}</div>' for part in parts)
    return f'<div style="display: grid; grid-template-columns: {columns}; gap: 0.6rem 1.6rem">{cells}</div>'


def one_of(colours: Mapping[str, str], title: str | None = None) -> alt.Color:
    """The colour of a column `name`, with a legend above the chart."""
    scale = alt.Scale(domain=[*colours], range=[*colours.values()])
    return alt.Color("name:N", scale=scale, title=title, legend=alt.Legend(orient="top"))


def tree_chart(tree: Tree, reach: Float[np.ndarray, " nodes"], newest: int | None = None) -> AnyChart:
    """A tree that grows from left to right. A node is as large as it is likely to be reached; `newest` has a ring."""
    depth, line = tree.depth, -tree.rows
    at = [{"depth": int(depth[node]), "row": float(line[node])} for node in range(tree.budget + 1)]
    edges = [
        end | {"edge": node}
        for node, parent in enumerate(tree.parent[1:].tolist(), 1)
        for end in (at[parent], at[node])
    ]
    nodes = [
        place | {"reach": float(reach[node]), "rank": int(tree.rank[node]), "node": node}
        for node, place in enumerate(at)
    ]
    x = alt.X("depth:Q", title="depth", axis=alt.Axis(tickMinStep=1, grid=False, format="d"))
    y = alt.Y("row:Q", axis=None)
    lines = alt.Chart(rows(edges)).mark_line(color=GREY, opacity=0.5, strokeWidth=1).encode(x, y, detail="edge:N")
    dots = (
        alt.Chart(rows(nodes))
        .mark_circle(color=BLUE, opacity=1)
        .encode(
            x,
            y,
            size=alt.Size("reach:Q", scale=alt.Scale(domain=[0, 1], range=[14, 260]), legend=None),
            tooltip=[
                alt.Tooltip("depth:Q"),
                alt.Tooltip("rank:Q"),
                alt.Tooltip("reach:Q", title="probability to be accepted", format=".3f"),
            ],
        )
    )
    ring = [] if newest is None else [nodes[newest]]
    marked = alt.Chart(rows(ring)).mark_point(color=ORANGE, size=260, strokeWidth=2.5).encode(x, y)
    return alt.layer(lines, dots, marked)


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python; infinite ones and NaN as null, as JSON has none."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
