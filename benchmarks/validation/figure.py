"""The figure of the validation: predicted against measured speedups and seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from benchmarks.validation.protocol import CLASSES, Prediction, class_of
from spectheory.report.svg import BLUE, GREEN, GREY, INK, MARKERS, MUTED, ORANGE, PURPLE, RED, panels, styled, to_svg

COLOURS = dict(zip(CLASSES, (BLUE, GREEN, ORANGE, RED, PURPLE, INK, MUTED, GREY), strict=True))
SPEEDUPS = (1, 2, 3, 4, 6)
"""Marks on the axes of the speedups."""


@styled
def figure_svg(columns: dict[str, list[Prediction]]) -> str:
    """Predicted against measured speedups and plain times, one row of panels for each column."""
    figure, axes = panels(2, len(columns), height_inches=2.9 * len(columns) + 0.6)
    for row, (title, found) in enumerate(columns.items()):
        _scatter(axes[2 * row], found, lambda one: (one.row.gain, one.seconds.gain(one.row.tau)))
        _scatter(axes[2 * row + 1], found, lambda one: (one.row.plain_seconds, one.seconds.plain))
        axes[2 * row].set_title(title.capitalize())
        axes[2 * row].set(xlabel="measured speedup", ylabel="predicted")
        axes[2 * row].set(xticks=SPEEDUPS, yticks=SPEEDUPS, xticklabels=SPEEDUPS, yticklabels=SPEEDUPS)
        axes[2 * row].minorticks_off()
        axes[2 * row + 1].set_xlabel("measured seconds of a plain step")
    handles = {label: mark for axis in axes for mark, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return to_svg(figure, "Predicted against measured speedups and seconds of plain steps")


def _scatter(
    axis: Axes, found: Sequence[Prediction], point: Callable[[Prediction], tuple[float | None, float | None]]
) -> None:
    shown = [(class_of(one.row), *point(one)) for one in found]
    points = [(name, x, y) for name, x, y in shown if x is not None and y is not None]
    for number, name in enumerate(CLASSES):
        of = [(x, y) for label, x, y in points if label == name]
        if of:
            marker = MARKERS[number % len(MARKERS)]
            axis.plot(*zip(*of, strict=True), marker, ms=3, color=COLOURS[name], label=name, alpha=0.8, mew=0)
    if not points:
        return
    values = [value for _, x, y in points for value in (x, y)]
    ends = [min(values) / 1.15, max(values) * 1.15]
    axis.plot(ends, ends, color=MUTED, lw=0.8)
    for factor in (2, 0.5):
        axis.plot(ends, [end * factor for end in ends], color=MUTED, lw=0.6, ls=":")
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
