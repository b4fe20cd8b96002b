"""Break-even batches, what wrong decisions and choices cost, and what published measurements say of each other."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.validation.error_tables import reason, shape_of
from benchmarks.validation.judged import Judged
from benchmarks.validation.measures import (
    LARGEST_BATCH,
    BreakEven,
    break_evens,
    choices,
    decisions,
    disagreements,
)
from benchmarks.validation.protocol import Prediction, class_of
from spectheory.report.tables import TextTable

CLOSE = 1.5
"""A predicted break-even batch within this factor of the measured one is counted as right."""
COSTLY = 0.05
"""Wrong decisions are listed from this share of the throughput on."""


def break_even_table(judged: Judged, title: str) -> TextTable:
    """Measured and predicted break-even batches of the sources that sweep the batch."""
    found = break_evens(judged.columns[title], (judged.predicts | judged.calibrated)[title])
    good = [one for one in found if one.factor <= CLOSE]
    inside = f"{sum(one.inside for one in good)} of the {sum(one.inside for one in found)}"
    rows = [(*_swept(one), f"{one.factor:.2f}", *_there(one), reason(one.row)) for one in found]
    return TextTable(
        f"{title.capitalize()}: {len(good)} of {len(found)} within a factor of {CLOSE}; "
        f"{inside} whose speedup falls to 1 within the sweep",
        (
            *("source", "models and shape", "measured (nearest batches)", "predicted", "factor"),
            *("predicted speedup at the measured batch", "tau, and the one that would explain it", "reason"),
        ),
        tuple(rows),
    )


def _swept(one: BreakEven) -> tuple[str, str, str, str]:
    row, (low, high) = one.row, one.between
    measured = f"above {one.last}"
    if one.measured is not None:
        measured = f"{one.measured:.0f} ({low} to {high})" if one.inside else f"at most {high}"
    predicted = f"above {LARGEST_BATCH}" if one.predicted is None else f"{one.predicted:.0f}"
    return row.source, f"{row.engine_version}, {row.target}, {row.draft}, {shape_of(row)}", measured, predicted


def _there(one: BreakEven) -> tuple[str, str]:
    """The predicted speedup at the measured batch, and the tau with which it would be 1."""
    if one.measured is None:
        return f"{one.gain:.2f} at {one.last}", f"{one.row.tau:.2f}"
    return f"{one.gain:.2f}", f"{one.row.tau:.2f}, {one.row.tau / one.gain:.2f}"


def costly_table(title: str, predictions: Sequence[Prediction]) -> TextTable:
    """The wrong decisions that cost more than 5% of the throughput, the most costly first."""
    found = sorted((one for one in decisions(predictions) if one.cost > COSTLY), key=lambda one: -one.cost)
    rows = [
        (
            f"{one.row.file} {one.row.number}",
            one.row.source,
            f"{one.row.engine_version}, {one.row.target}, {one.row.draft}, {shape_of(one.row)}, batch {one.row.batch}",
            f"{one.row.gain or 0:.2f}",
            f"{one.gain:.2f}",
            f"{one.cost:.0%}",
            reason(one.row),
        )
        for one in found
    ]
    return TextTable(
        f"{title.capitalize()}: wrong decisions that cost more than {COSTLY:.0%}",
        ("line", "source", "row", "measured", "predicted", "cost", "reason"),
        tuple(rows),
    )


def disagreement_table(judged: Judged) -> TextTable:
    """The settings that several sources measured, with what they differ by."""
    rows = [
        (
            class_of(one.rows[0]),
            f"{one.rows[0].gpus} x {one.rows[0].gpu}, {one.rows[0].target}, {shape_of(one.rows[0])}, "
            f"batch {one.rows[0].batch}",
            one.what,
            "; ".join(
                f"{row.source} ({row.engine_version}) {1e3 * value:.2f} ms"
                if one.what == "plain"
                else f"{row.source} ({row.engine_version}) {value:.2f}"
                for row, value in zip(one.rows, one.values, strict=True)
            ),
            f"{one.spread:.0%}",
            f"{one.least_error:.0%}",
        )
        for one in disagreements(each.row for each in judged.first)
    ]
    return TextTable(
        "", ("class", "setting", "of", "measured (speedups over tau)", "difference", "least error"), tuple(rows)
    )


def decision_words(title: str, predictions: Sequence[Prediction]) -> list[str]:
    """What wrong decisions and choices cost, in words."""
    made, chosen = decisions(predictions), choices(predictions)
    wrong = [one for one in made if one.cost > 0]
    costly = [one for one in made if one.cost > COSTLY]
    words = [
        f"{title.capitalize()}: of {len(made)} decisions to speculate or not, {len(wrong)} are wrong, {len(costly)} at "
        f"a cost of more than {COSTLY:.0%} of the throughput; the most costly costs "
        f"{100 * max((one.cost for one in made), default=0):.0f}%."
    ]
    if chosen:
        regrets = sorted(one.regret for one in chosen)
        words.append(
            f"Of {len(chosen)} choices among several measured shapes, {sum(r == 0 for r in regrets)} are the best one; "
            f"the regret is {100 * regrets[len(regrets) // 2]:.0f}% in the middle and {100 * regrets[-1]:.0f}% at most."
        )
    return words
