"""Predicted against measured tau as a figure, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from spectheory.report.figures import SERIES
from spectheory.report.matrix import calibration_rows, calibration_words
from spectheory.report.page import drawn, numbers, prose, shell
from spectheory.report.svg import INK, MARKERS, MUTED, panels, styled, to_svg
from spectheory.results.calibration import Calibrated, Calibration

MARK = 4.2
"""Size of a mark, points."""
WORTH_A_NAME_PERCENT = 10
"""Of the marks of a panel those of largest error on either side are named, from this error on."""


@styled
def calibration_figure(calibration: Calibration) -> str:
    """Measured against predicted tau, a row for each temperature: left the exact law, right the positional model.

    Greedy decoding leaves the exact law nothing to predict, so that its left panel is empty.
    """
    temperatures = sorted({row.temperature for row in calibration.rows})
    families = list(dict.fromkeys(row.family for row in calibration.rows))
    figure, axes = panels(columns=2, rows=len(temperatures), height_inches=0.7 + 2.45 * len(temperatures), sharey=True)
    limits = 0.9, max(max(row.tau, row.exact, row.positional or 0.0) for row in calibration.rows) + 0.4
    for temperature, exact, positional in zip(temperatures, axes[::2], axes[1::2], strict=True):
        rows = [row for row in calibration.rows if row.temperature == temperature]
        for row in rows if temperature else ():
            _mark(exact, row, row.exact, families.index(row.family), "full")
        if not temperature:
            exact.text(0.05, 0.95, "nothing is\nleft to chance", transform=exact.transAxes, va="top", color=MUTED)
        _positional(positional, rows, families)
        exact.set_title(f"temperature {temperature:g}" if temperature else "greedy")
        exact.set_ylabel("measured tau")
    for panel in axes:
        panel.plot(limits, limits, color=MUTED, linewidth=0.8, linestyle=":", zorder=0)
        panel.set(xlim=limits, ylim=limits, aspect="equal")
        panel.xaxis.set_major_locator(MultipleLocator(1))
        panel.yaxis.set_major_locator(MultipleLocator(1))
    axes[-2].set_xlabel("tau by the exact law")
    axes[-1].set_xlabel("tau by the positional model")
    style = {"linestyle": "none", "markersize": MARK}
    marks = [Line2D([], [], marker=MARKERS[f], color=SERIES[f], label=name, **style) for f, name in enumerate(families)]
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    return to_svg(figure, "Measured tau against tau predicted by the exact law and by the positional model")


def _positional(panel: Axes, rows: Sequence[Calibrated], families: list[str]) -> None:
    """Open marks with both intervals, those of largest error named."""
    known = [(row.error_percent or 0.0, row.positional, row) for row in rows if row.positional is not None]
    for _, predicted, row in known:
        family = families.index(row.family)
        _mark(panel, row, predicted, family, "none")
        if row.positional_low is not None and row.positional_high is not None:
            panel.hlines(row.tau, row.positional_low, row.positional_high, color=SERIES[family], linewidth=0.8)
    ends = [pick(known, key=lambda one: one[0]) for pick in (min, max)] if known else []
    for error, predicted, row in ends:
        if abs(error) >= WORTH_A_NAME_PERCENT:
            verifier = f"{row.verifier}, " if row.temperature else ""
            text = f"{row.policy}\n{verifier}{error:+.0f}%"
            place = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "linespacing": 1.0}
            panel.annotate(text, (predicted, row.tau), **place, fontsize=7, color=INK)


def _mark(panel: Axes, row: Calibrated, predicted: float, family: int, fill: Literal["full", "none"]) -> None:
    colour = SERIES[family]
    panel.plot(predicted, row.tau, MARKERS[family], color=colour, fillstyle=fill, markersize=MARK)
    if row.tau_low is not None and row.tau_high is not None:
        panel.vlines(predicted, row.tau_low, row.tau_high, color=colour, linewidth=0.8, alpha=0.4)


def calibration_page(title: str, calibration: Calibration) -> str:
    """The matrix as one HTML page."""
    stamp = calibration.provenance
    lead, *words = calibration_words(calibration)
    return shell(
        title,
        f'<p class="lead">{prose(lead)}</p>',
        *(f"<p>{prose(line)}</p>" for line in words),
        drawn(calibration_figure(calibration)),
        *(numbers(table).replace("<details>", "<details open>") for table in calibration_rows(calibration)),
        f"<footer>{escape(stamp.source)}; {escape(stamp.created)}; {escape(stamp.machine)}; "
        f"{escape(', '.join(f'{key} {value}' for key, value in (stamp.versions | stamp.facts).items()))}</footer>",
    )
