"""The report of a calibration: measured and predicted tau as tables, in words, as a figure and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import hypot
from statistics import median
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from spectheory.report.figures import SERIES
from spectheory.report.page import words_page
from spectheory.report.svg import INK, MARKERS, MUTED, panels, styled, to_svg
from spectheory.report.tables import MISSING, TextTable
from spectheory.results.calibration import BOUND, Calibrated, Calibration

MARK = 4.2
"""Size of a mark, points."""
WORTH_A_NAME_PERCENT = 10
"""In each panel the largest positive and negative error are labelled if they are at least this large."""
CLOSE_PERCENT = 5
WORST = 3
"""This many combinations with the largest errors are named."""
NAMES = {
    "replayed": "Replay on the texts of other prompts",
    "classes": "Mixture of request classes, from counts of other prompts",
    "positional": "Product of rates by depth and rank, from other prompts",
}
"""What the report calls each prediction, in the order of its findings."""
PANELS = {"exact": "exact prediction", "positional": "product of rates", "replayed": "replay"}
"""The predictions that the figure lays beside measured tau."""


def calibration_rows(calibration: Calibration) -> list[TextTable]:
    """One table for each temperature, with one row for each policy and verifier."""
    by_temperature = groupby(sorted(calibration.rows, key=lambda row: row.temperature), lambda row: row.temperature)
    return [_table(calibration.sampling(temperature), list(rows)) for temperature, rows in by_temperature]


def calibration_words(calibration: Calibration) -> list[str]:
    """The findings in words: exact prediction, greedy texts, the other predictions, and what was left out."""
    words = []
    if (z := calibration.widest_z) is not None:
        held = "holds" if abs(z) <= BOUND else "DOES NOT HOLD"
        sampled = sum(row.z is not None for row in calibration.rows)
        words.append(
            f"Exact prediction {held}: the largest z of {sampled} is {z:+.2f}. If every prediction were right, a z "
            f"beyond ±{BOUND:g} would have a probability of at most {100 * calibration.level:.1g}%. This checks the "
            "number of accepted tokens; `certify_step` checks that the text keeps the target's distribution."
        )
    if compared := sum(row.compared for row in calibration.rows):
        identical = sum(row.identical for row in calibration.rows)
        widest = max((row.largest_margin or 0.0 for row in calibration.rows), default=0.0)
        tie = "" if identical == compared else f"; where texts diverge, the two logits differ by at most {widest:.1e}"
        words.append(f"Greedy text equals the text of plain decoding for {identical:,} of {compared:,} requests{tie}.")
    if own := [row.replay_z for row in calibration.rows if row.replay_z is not None]:
        words.append(
            f"Replay on the measured texts themselves: the largest z of {len(own)} is {max(own, key=abs):+.2f}, cycles "
            "counted against cycles expected given the text."
        )
    halves = [50 * (row.tau_high - row.tau_low) / row.tau for row in calibration.rows if row.tau_high and row.tau_low]
    if halves:
        words.append(f"Half the 95% interval of a measured tau is {median(halves):.1f}% in the middle case.")
    for name in NAMES:
        words += _error_words(name, [row for row in calibration.rows if row.error_percent(name) is not None])
    return words + [f"Left out: {name} {why}." for name, why in calibration.left_out.items()]


@styled
def calibration_figure(calibration: Calibration) -> str:
    """Measured against predicted tau, one row for each temperature.

    One panel for each of `PANELS`. For greedy decoding the exact prediction equals the measurement, so its panel is
    empty.
    """
    temperatures = sorted({row.temperature for row in calibration.rows})
    families = list(dict.fromkeys(row.family for row in calibration.rows))
    height = 0.7 + 2.0 * len(temperatures)
    figure, axes = panels(columns=len(PANELS), rows=len(temperatures), height_inches=height, sharey=True)
    every = [getattr(row, name) or 0.0 for row in calibration.rows for name in ("tau", *PANELS)]
    limits = 0.9, max(every) + 0.4
    columns = (axes[column :: len(PANELS)] for column in range(len(PANELS)))
    for temperature, exact, *others in zip(temperatures, *columns, strict=True):
        rows = [row for row in calibration.rows if row.temperature == temperature]
        for row in rows if temperature else ():
            _draw_mark(exact, row, row.exact, families.index(row.family), "full")
        if not temperature:
            exact.text(0.05, 0.95, "nothing is\nrandom", transform=exact.transAxes, va="top", color=MUTED)
        for panel, name in zip(others, list(PANELS)[1:], strict=True):
            _draw_predicted(panel, rows, families, name)
        exact.set_title(calibration.sampling(temperature) if temperature else "greedy")
        exact.set_ylabel("measured tau")
    for panel in axes:
        panel.plot(limits, limits, color=MUTED, linewidth=0.8, linestyle=":", zorder=0)
        panel.set(xlim=limits, ylim=limits, aspect="equal")
        panel.xaxis.set_major_locator(MultipleLocator(1))
        panel.yaxis.set_major_locator(MultipleLocator(1))
    for panel, name in zip(axes[-len(PANELS) :], PANELS.values(), strict=True):
        panel.set_xlabel(f"tau, {name}")
    marks = [
        Line2D([], [], linestyle="none", marker=MARKERS[f], markersize=MARK, color=SERIES[f], label=name)
        for f, name in enumerate(families)
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    return to_svg(figure, "Measured tau against tau predicted exactly, by the product of rates and by replay")


def calibration_page(title: str, calibration: Calibration, figure: str | None = None) -> str:
    """The calibration as one HTML page, with its figure if that is drawn already."""
    figures, stamps = [figure or calibration_figure(calibration)], {"calibration": calibration.provenance}
    return words_page(title, calibration_words(calibration), figures, calibration_rows(calibration), stamps)


def _table(sampling: str, rows: list[Calibrated]) -> TextTable:
    greedy = rows[0].temperature == 0
    certain = ("equal",) if greedy else ("exact", "z")
    predicted = ("rates", "error", "classes", "error", "replay", "±", "error", "z")
    header = ("policy", "nodes", "tau", "±", *certain, *predicted)
    cells: list[tuple[str, ...]] = []
    sections = set()
    for policy, several in groupby(rows, lambda row: row.policy):
        group = list(several)
        if len(group) == 1:
            name = policy if greedy else f"{policy}, {group[0].verifier}"
            cells.append((name, *_numbers(group[0])))
            continue
        sections.add(len(cells))
        cells.append((policy, *[""] * (len(header) - 1)))
        cells += [(f"· {row.verifier}", *_numbers(row)) for row in group]
        sections.add(len(cells))
    repeated = [row.repeated_share for row in rows if row.repeated_share is not None]
    loops = f", {sum(repeated) / len(repeated):.0%} of 4-grams repeat" if repeated else ""
    requests = max(row.requests for row in rows)
    return TextTable(
        title=f"{sampling[0].upper()}{sampling[1:]}: {requests} requests, ± half a 95% interval{loops}",
        header=header,
        rows=tuple(cells),
        sections=frozenset(sections - {0, len(cells)}),
    )


def _numbers(row: Calibrated) -> tuple[str, ...]:
    z = MISSING if row.z is None else f"{row.z:+.2f}"
    exact = (f"{row.identical}/{row.compared}",) if row.temperature == 0 else (f"{row.exact:.3f}", z)
    measured = f"{row.nodes:.1f}", f"{row.tau:.3f}", _half(row.tau_low, row.tau_high)
    own = MISSING if row.replay_z is None else f"{row.replay_z:+.2f}"
    (rates, off), (classes, far), (replayed, left) = (
        _predicted(row, name) for name in ("positional", "classes", "replayed")
    )
    half = MISSING if row.replayed is None else _half(*row.interval("replayed"))
    return *measured, *exact, rates, off, classes, far, replayed, half, left, own


def _predicted(row: Calibrated, name: str) -> tuple[str, str]:
    """A prediction and its error."""
    error = row.error_percent(name)
    return (MISSING, MISSING) if error is None else (f"{getattr(row, name):.3f}", f"{error:+.1f}%")


def _half(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{(high - low) / 2:.2f}"


def _error_words(name: str, rows: list[Calibrated]) -> list[str]:
    """How far a prediction from other prompts is off, and where most."""
    if not rows:
        return []
    errors = [row.error_percent(name) or 0.0 for row in rows]
    close = sum(abs(error) <= CLOSE_PERCENT for error in errors)
    order = sorted(range(len(rows)), key=lambda i: -abs(errors[i]))[:WORST]
    worst = "; ".join(
        f"{rows[i].policy}, {rows[i].verifier} at {rows[i].temperature:g}: {errors[i]:+.1f}%" for i in order
    )
    words = [
        f"{NAMES[name]}: median error {median(map(abs, errors)):.1f}%, within {CLOSE_PERCENT}% for {close} of "
        f"{len(rows)} combinations, within the joint 95% interval for {sum(_joint(row, name) for row in rows)}. "
        f"Largest errors: {worst}."
    ]
    if name == "positional":
        by_verifier = _ranges((row.verifier, error) for row, error in zip(rows, errors, strict=True))
        words.append(
            "Above temperature 0 the rates are the naive solver's on draws without replacement for every verifier; "
            "policies that draft the most probable tokens, which only sample and match can verify, have their own. "
            f"Errors by verifier: {by_verifier}."
        )
    return words


def _joint(row: Calibrated, name: str) -> bool:
    """Whether a prediction and the measurement differ by no more than their intervals together allow."""
    reach = hypot(*(_reach(*row.interval(each)) for each in ("tau", name)))
    return abs(getattr(row, name) - row.tau) <= reach


def _reach(low: float | None, high: float | None) -> float:
    """Half the width of an interval; 0 where there is none."""
    return 0.0 if low is None or high is None else (high - low) / 2


def _ranges(errors: Iterable[tuple[str, float]]) -> str:
    found: dict[str, list[float]] = {}
    for name, error in errors:
        found.setdefault(name, []).append(error)
    widest = sorted(found.items(), key=lambda item: -max(map(abs, item[1])))
    return "; ".join(
        f"{name} {min(values):+.0f}" + (f" to {max(values):+.0f}%" if len(values) > 1 else "%")
        for name, values in widest
    )


def _draw_predicted(panel: Axes, rows: Sequence[Calibrated], families: list[str], name: str) -> None:
    """Draw open marks with both intervals, and label the marks with the largest errors."""
    known = [(row.error_percent(name) or 0.0, row) for row in rows if getattr(row, name) is not None]
    for _, row in known:
        family, (low, high) = families.index(row.family), row.interval(name)
        _draw_mark(panel, row, getattr(row, name), family, "none")
        if low is not None and high is not None:
            panel.hlines(row.tau, low, high, color=SERIES[family], linewidth=0.8, alpha=0.4)
    ends = [pick(known, key=lambda one: one[0]) for pick in (min, max)] if known else []
    for error, row in ends:
        if abs(error) >= WORTH_A_NAME_PERCENT:
            verifier = f"{row.verifier}, " if row.temperature else ""
            text = f"{row.policy}\n{verifier}{error:+.0f}%"
            place = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "linespacing": 1.0}
            panel.annotate(text, (getattr(row, name), row.tau), **place, fontsize=7, color=INK)


def _draw_mark(panel: Axes, row: Calibrated, predicted: float, family: int, fill: Literal["full", "none"]) -> None:
    colour = SERIES[family]
    panel.plot(predicted, row.tau, MARKERS[family], color=colour, fillstyle=fill, markersize=MARK)
    if row.tau_low is not None and row.tau_high is not None:
        panel.vlines(predicted, row.tau_low, row.tau_high, color=colour, linewidth=0.8, alpha=0.4)
