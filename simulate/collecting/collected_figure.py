"""The figure of collected results: points with intervals, one row per task or along a setting."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from simulate.collecting.results import Collected, Estimate, TaskResult
from spectheory.core.errors import InputError
from spectheory.report.svg import BLUE, GREEN, GREY, MARKERS, ORANGE, PURPLE, RED, panels, styled, to_svg

SERIES = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)


@styled
def collected_figure(collected: Collected, figure: str, along: str, by: str) -> str:
    """The drawing of `simulate.plot`."""
    if not collected.results:
        raise InputError("there are no results to plot: collect at least one task")
    if by and not along:
        raise InputError(f"by={by!r} needs along: name the setting for the horizontal axis")
    points = [(result, result.estimate(figure)) for result in collected.results]
    shown = points[0][1].figure
    label = f"{shown.name}, {shown.unit}" if shown.unit else shown.name
    canvas, (axes,) = panels(height_inches=3.1 if along else 1.1 + 0.3 * len(points))
    if along:
        _lines(axes, points, along, by)
        axes.set(xlabel=along, ylabel=label)
    else:
        _rows(axes, points)
        axes.set(xlabel=label)
    axes.set_title(f"{shown.name}, 95% intervals")
    return to_svg(canvas, f"{label}, of {len(points)} tasks, with 95% intervals")


def _rows(axes: Axes, points: list[tuple[TaskResult, Estimate]]) -> None:
    """One row for each task."""
    for row, (_, found) in enumerate(points):
        if found.low is not None and found.high is not None:
            axes.hlines(row, found.low, found.high, color=BLUE, linewidth=2.4, alpha=0.6)
        axes.plot(found.value, row, "o", color=BLUE, markersize=5)
    axes.set_yticks(range(len(points)), [result.name[:60] for result, _ in points])
    axes.set_ylim(len(points) - 0.5, -0.5)
    axes.margins(x=0.1)


def _lines(axes: Axes, points: list[tuple[TaskResult, Estimate]], along: str, by: str) -> None:
    """One line for each value of the setting `by`."""
    groups: dict[Any, list[tuple[Any, Estimate]]] = {}
    for result, found in points:
        groups.setdefault(_setting(result, by) if by else "", []).append((_setting(result, along), found))
    for i, (value, group) in enumerate(groups.items()):
        ordered = sorted(group, key=lambda pair: pair[0])
        colour, marker = SERIES[i % len(SERIES)], MARKERS[i % len(MARKERS)]
        x, y = [at for at, _ in ordered], [found.value for _, found in ordered]
        axes.plot(x, y, color=colour, marker=marker, markersize=4, label=f"{by} {value}")
        for at, found in ordered:
            if found.low is not None and found.high is not None:
                axes.vlines(at, found.low, found.high, color=colour, linewidth=1.4, alpha=0.6)
    if by:
        axes.legend()


def _setting(result: TaskResult, name: str) -> Any:
    value = result.settings.get(name)
    if not isinstance(value, bool | int | float | str):
        known = ", ".join(k for k, v in result.settings.items() if isinstance(v, bool | int | float | str)) or "none"
        raise InputError(f"task {result.name!r} has no number or text as setting {name!r}, it has: {known}")
    return value
