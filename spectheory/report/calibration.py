"""A calibration: predicted and measured tau as tables, in words, as a figure and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from statistics import median
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from spectheory.report.figures import SERIES
from spectheory.report.page import drawn, numbers, prose, shell
from spectheory.report.svg import INK, MARKERS, MUTED, panels, styled, to_svg
from spectheory.report.tables import MISSING, TextTable
from spectheory.results.calibration import BOUND, Calibrated, Calibration

MARK = 4.2
"""Size of a mark, points."""
WORTH_A_NAME_PERCENT = 10
"""Of the marks of a panel those of largest error on either side are named, from this error on."""
CLOSE_PERCENT = 5
WORST = 3
"""Combinations of largest error that are named."""


def calibration_rows(calibration: Calibration) -> list[TextTable]:
    """A table for each temperature; of policies with several verifiers one row for each."""
    by_temperature = groupby(sorted(calibration.rows, key=lambda row: row.temperature), lambda row: row.temperature)
    return [_table(temperature, list(rows)) for temperature, rows in by_temperature]


def calibration_words(calibration: Calibration) -> list[str]:
    """What the tables come to: the exact law, greedy identity, the positional model, what was left out."""
    words = []
    if (z := calibration.widest_z) is not None:
        held = "holds" if abs(z) <= BOUND else "DOES NOT HOLD"
        sampled = sum(row.z is not None for row in calibration.rows)
        words.append(
            f"Exact law {held}: the widest z of {sampled} is {z:+.2f}; were every law right, one beyond ±{BOUND:g} "
            f"would have a chance of at most {100 * calibration.level:.1g}%. Cycles then do what their laws say; that "
            "the text keeps the target's is for `certify_step`."
        )
    if compared := sum(row.compared for row in calibration.rows):
        identical = sum(row.identical for row in calibration.rows)
        widest = max((row.widest_parting or 0.0 for row in calibration.rows), default=0.0)
        tie = "" if identical == compared else f"; where they part, the two logits are at most {widest:.1e} apart"
        words.append(f"Greedy text is that of plain decoding in {identical:,} of {compared:,}{tie}.")
    words += _misled([row for row in calibration.rows if row.error_percent is not None])
    return words + [f"Left out: {name} {why}." for name, why in calibration.left_out.items()]


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
            _draw_mark(exact, row, row.exact, families.index(row.family), "full")
        if not temperature:
            exact.text(0.05, 0.95, "nothing is\nleft to chance", transform=exact.transAxes, va="top", color=MUTED)
        _draw_positional(positional, rows, families)
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


def _table(temperature: float, rows: list[Calibrated]) -> TextTable:
    greedy = temperature == 0
    header = ("policy", "nodes", "tau", "±", *(("equal",) if greedy else ("exact", "z")), "model", "±", "error")
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
    return f"{row.nodes:.1f}", f"{row.tau:.3f}", _half(row.tau_low, row.tau_high), *exact, *_positional(row)


def _positional(row: Calibrated) -> tuple[str, str, str]:
    if row.positional is None:
        return MISSING, MISSING, MISSING
    return f"{row.positional:.3f}", _half(row.positional_low, row.positional_high), f"{row.error_percent:+.1f}%"


def _half(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{(high - low) / 2:.2f}"


def _misled(rows: list[Calibrated]) -> list[str]:
    """Where the positional model is wrong, and by how much."""
    if not rows:
        return []
    errors = [row.error_percent or 0.0 for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -abs(errors[i]))[:WORST]
    worst = "; ".join(
        f"{rows[i].policy}, {rows[i].verifier} at {rows[i].temperature:g}: {errors[i]:+.0f}%" for i in order
    )
    close = sum(abs(error) <= CLOSE_PERCENT for error in errors)
    halves = [50 * (row.tau_high - row.tau_low) / row.tau for row in rows if row.tau_high and row.tau_low]
    noise = f" (these prompts alone leave ±{median(halves):.0f}% in the middle case)" if halves else ""
    return [
        f"Positional model: within {CLOSE_PERCENT}% for {close} of {len(rows)}, its 95% interval apart from the "
        f"measured one for {sum(map(_apart, rows))}{noise}. Furthest off: {worst}.",
        "Above temperature 0 its rates are the naive solver's on draws without replacement, whatever the verifier; "
        "those of the most probable tokens, which only sample and match may verify, are its own.",
        f"Its errors by verifier: {_ranges((row.verifier, error) for row, error in zip(rows, errors, strict=True))}.",
        f"By policy: {_ranges((row.policy, error) for row, error in zip(rows, errors, strict=True))}.",
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
    """Open marks with both intervals, those of largest error named."""
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
