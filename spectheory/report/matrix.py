"""Predictions beside measurements over many combinations, as tables of text and in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from statistics import median

from spectheory.report.tables import MISSING, TextTable
from spectheory.results.calibration import BOUND, Calibrated, Calibration

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
