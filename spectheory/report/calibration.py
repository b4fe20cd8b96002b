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
from spectheory.report.page import figure_html, folded_table, prose_html, shell, sources_html
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


def calibration_rows(calibration: Calibration) -> list[TextTable]:
    """One table for each temperature, with one row for each policy and verifier."""
    by_temperature = groupby(sorted(calibration.rows, key=lambda row: row.temperature), lambda row: row.temperature)
    return [_table(temperature, list(rows)) for temperature, rows in by_temperature]


def calibration_words(calibration: Calibration) -> list[str]:
    """The findings in words: exact prediction, greedy texts, positional prediction, and what was left out."""
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
    words += _replay_words([row for row in calibration.rows if row.replayed is not None])
    words += _positional_words([row for row in calibration.rows if row.error_percent is not None])
    return words + [f"Left out: {name} {why}." for name, why in calibration.left_out.items()]


@styled
def calibration_figure(calibration: Calibration) -> str:
    """Measured against predicted tau, one row for each temperature.

    Left panels show the exact prediction, right panels the positional model. For greedy decoding the exact prediction
    equals the measurement, so its left panel is empty.
    """
    temperatures = sorted({row.temperature for row in calibration.rows})
    families = list(dict.fromkeys(row.family for row in calibration.rows))
    figure, axes = panels(columns=2, rows=len(temperatures), height_inches=0.7 + 2.45 * len(temperatures), sharey=True)
    limits = 0.9, max(max(row.tau, row.exact, row.positional or 0.0) for row in calibration.rows) + 0.4
    for temperature, exact, positional in zip(temperatures, axes[::2], axes[1::2], strict=True):
        rows = [row for row in calibration.rows if row.temperature == temperature]
        for row in rows if temperature else ():
            _draw_mark(exact, row, row.exact, families.index(row.family), "full")
        if not temperature:
            exact.text(0.05, 0.95, "nothing is\nrandom", transform=exact.transAxes, va="top", color=MUTED)
        _draw_positional(positional, rows, families)
        exact.set_title(f"temperature {temperature:g}" if temperature else "greedy")
        exact.set_ylabel("measured tau")
    for panel in axes:
        panel.plot(limits, limits, color=MUTED, linewidth=0.8, linestyle=":", zorder=0)
        panel.set(xlim=limits, ylim=limits, aspect="equal")
        panel.xaxis.set_major_locator(MultipleLocator(1))
        panel.yaxis.set_major_locator(MultipleLocator(1))
    axes[-2].set_xlabel("tau, exact prediction")
    axes[-1].set_xlabel("tau, positional model")
    style = {"linestyle": "none", "markersize": MARK}
    marks = [Line2D([], [], marker=MARKERS[f], color=SERIES[f], label=name, **style) for f, name in enumerate(families)]
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    return to_svg(figure, "Measured tau against tau predicted exactly and by the positional model")


def calibration_page(title: str, calibration: Calibration) -> str:
    """The calibration as one HTML page."""
    lead, *words = calibration_words(calibration)
    return shell(
        title,
        f'<p class="lead">{prose_html(lead)}</p>',
        *(f"<p>{prose_html(line)}</p>" for line in words),
        figure_html(calibration_figure(calibration)),
        *(folded_table(table, is_open=True) for table in calibration_rows(calibration)),
        sources_html({"calibration": calibration.provenance}),
    )


def _table(temperature: float, rows: list[Calibrated]) -> TextTable:
    greedy = temperature == 0
    certain = ("equal",) if greedy else ("exact", "z")
    header = ("policy", "nodes", "tau", "±", *certain, *("model", "±", "error"), *("replay", "±", "error", "z"))
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
        title=f"Temperature {temperature:g}: {requests} requests, ± half a 95% interval{loops}",
        header=header,
        rows=tuple(cells),
        sections=frozenset(sections - {0, len(cells)}),
    )


def _numbers(row: Calibrated) -> tuple[str, ...]:
    z = MISSING if row.z is None else f"{row.z:+.2f}"
    exact = (f"{row.identical}/{row.compared}",) if row.temperature == 0 else (f"{row.exact:.3f}", z)
    measured = f"{row.nodes:.1f}", f"{row.tau:.3f}", _half(row.tau_low, row.tau_high)
    own = MISSING if row.replay_z is None else f"{row.replay_z:+.2f}"
    positional = row.positional, row.positional_low, row.positional_high, row.error_percent
    replayed = row.replayed, row.replayed_low, row.replayed_high, row.replay_error_percent
    return *measured, *exact, *_predicted(*positional), *_predicted(*replayed), own


def _predicted(tau: float | None, low: float | None, high: float | None, error: float | None) -> tuple[str, str, str]:
    """A prediction, half its interval, and its error."""
    if tau is None or error is None:
        return MISSING, MISSING, MISSING
    return f"{tau:.3f}", _half(low, high), f"{error:+.1f}%"


def _half(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{(high - low) / 2:.2f}"


def _replay_words(rows: list[Calibrated]) -> list[str]:
    """How far replay is off on other prompts, and whether it holds on the measured texts."""
    if not rows:
        return []
    errors = [row.replay_error_percent or 0.0 for row in rows]
    far, worst = max(zip(errors, rows, strict=True), key=lambda one: abs(one[0]))
    close = sum(abs(error) <= CLOSE_PERCENT for error in errors)
    words = [
        f"Replay on the texts of other prompts: median error {median(map(abs, errors)):.1f}%, within {CLOSE_PERCENT}% "
        f"for {close} of {len(rows)} combinations, within the joint 95% interval for {sum(map(_joint, rows))}. Largest "
        f"error: {worst.policy}, {worst.verifier} at {worst.temperature:g}: {far:+.1f}%."
    ]
    if own := [row.replay_z for row in rows if row.replay_z is not None]:
        words.append(
            f"Replay on the measured texts themselves: the largest z of {len(own)} is {max(own, key=abs):+.2f}, cycles "
            "counted against cycles expected given the text."
        )
    return words


def _joint(row: Calibrated) -> bool:
    """Whether replay and measurement differ by no more than their intervals together allow."""
    return abs((row.replayed or 0.0) - row.tau) <= hypot(
        _reach(row.tau_low, row.tau_high), _reach(row.replayed_low, row.replayed_high)
    )


def _reach(low: float | None, high: float | None) -> float:
    """Half the width of an interval; 0 where there is none."""
    return 0.0 if low is None or high is None else (high - low) / 2


def _positional_words(rows: list[Calibrated]) -> list[str]:
    """How often the positional model is wrong, and by how much."""
    if not rows:
        return []
    errors = [row.error_percent or 0.0 for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -abs(errors[i]))[:WORST]
    worst = "; ".join(
        f"{rows[i].policy}, {rows[i].verifier} at {rows[i].temperature:g}: {errors[i]:+.0f}%" for i in order
    )
    close = sum(abs(error) <= CLOSE_PERCENT for error in errors)
    halves = [50 * (row.tau_high - row.tau_low) / row.tau for row in rows if row.tau_high and row.tau_low]
    noise = f" (the 95% interval of a measured tau is typically ±{median(halves):.0f}%)" if halves else ""
    return [
        f"Positional model: within {CLOSE_PERCENT}% for {close} of {len(rows)} combinations; its 95% interval does "
        f"not overlap the measured one for {sum(map(_apart, rows))}{noise}. Largest errors: {worst}.",
        "Above temperature 0 the model uses the naive solver's rates on draws without replacement for every verifier. "
        "Policies that draft the most probable tokens, which only sample and match can verify, have their own rates.",
        f"Errors by verifier: {_ranges((row.verifier, error) for row, error in zip(rows, errors, strict=True))}.",
        f"Errors by policy: {_ranges((row.policy, error) for row, error in zip(rows, errors, strict=True))}.",
    ]


def _apart(row: Calibrated) -> bool:
    low, high = row.positional_low, row.positional_high
    if low is None or high is None or row.tau_low is None or row.tau_high is None:
        return False
    return low > row.tau_high or high < row.tau_low


def _ranges(errors: Iterable[tuple[str, float]]) -> str:
    found: dict[str, list[float]] = {}
    for name, error in errors:
        found.setdefault(name, []).append(error)
    widest = sorted(found.items(), key=lambda item: -max(map(abs, item[1])))
    return "; ".join(
        f"{name} {min(values):+.0f}" + (f" to {max(values):+.0f}%" if len(values) > 1 else "%")
        for name, values in widest
    )


def _draw_positional(panel: Axes, rows: Sequence[Calibrated], families: list[str]) -> None:
    """Draw open marks with both intervals, and label the marks with the largest errors."""
    known = [(row.error_percent or 0.0, row.positional, row) for row in rows if row.positional is not None]
    for _, predicted, row in known:
        family = families.index(row.family)
        _draw_mark(panel, row, predicted, family, "none")
        if row.positional_low is not None and row.positional_high is not None:
            panel.hlines(row.tau, row.positional_low, row.positional_high, color=SERIES[family], linewidth=0.8)
    ends = [pick(known, key=lambda one: one[0]) for pick in (min, max)] if known else []
    for error, predicted, row in ends:
        if abs(error) >= WORTH_A_NAME_PERCENT:
            verifier = f"{row.verifier}, " if row.temperature else ""
            text = f"{row.policy}\n{verifier}{error:+.0f}%"
            place = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "linespacing": 1.0}
            panel.annotate(text, (predicted, row.tau), **place, fontsize=7, color=INK)


def _draw_mark(panel: Axes, row: Calibrated, predicted: float, family: int, fill: Literal["full", "none"]) -> None:
    colour = SERIES[family]
    panel.plot(predicted, row.tau, MARKERS[family], color=colour, fillstyle=fill, markersize=MARK)
    if row.tau_low is not None and row.tau_high is not None:
        panel.vlines(predicted, row.tau_low, row.tau_high, color=colour, linewidth=0.8, alpha=0.4)
