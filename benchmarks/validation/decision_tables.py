"""Break-even batches, and what wrong decisions and choices cost."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.validation.error_tables import shape_of
from benchmarks.validation.judged import Judged
from benchmarks.validation.measures import LARGEST_BATCH, BreakEven, break_evens, choices, decisions
from benchmarks.validation.protocol import Prediction
from spectheory.report.tables import TextTable


def break_even_table(judged: Judged, title: str) -> TextTable:
    """Measured and predicted break-even batches of the sources that sweep the batch."""
    found = break_evens(judged.columns[title], judged.predicts[title])
    good = sum(one.factor <= 1.5 for one in found)
    rows = [(*_swept(one), f"{one.factor:.2f}") for one in found]
    return TextTable(
        f"{title.capitalize()}: {good} of {len(found)} within a factor of 1.5",
        ("source", "models and shape", "measured", "predicted", "factor"),
        tuple(rows),
    )


def _swept(one: BreakEven) -> tuple[str, str, str, str]:
    row = one.row
    measured = f"above {one.last}" if one.measured is None else f"{one.measured:.0f}"
    predicted = f"above {LARGEST_BATCH}" if one.predicted is None else f"{one.predicted:.0f}"
    return row.source, f"{row.target}, {row.draft}, {shape_of(row)}", measured, predicted


def decision_words(title: str, predictions: Sequence[Prediction]) -> list[str]:
    """What wrong decisions and choices cost, in words."""
    made, chosen = decisions(predictions), choices(predictions)
    wrong = [one for one in made if one.cost > 0]
    costly = [one for one in made if one.cost > 0.05]
    words = [
        f"{title.capitalize()}: of {len(made)} decisions to speculate or not, {len(wrong)} are wrong, {len(costly)} at "
        f"a cost of more than 5% of the throughput; the most costly costs "
        f"{100 * max((one.cost for one in made), default=0):.0f}%."
    ]
    if chosen:
        regrets = sorted(one.regret for one in chosen)
        words.append(
            f"Of {len(chosen)} choices among several measured shapes, {sum(r == 0 for r in regrets)} are the best one; "
            f"the regret is {100 * regrets[len(regrets) // 2]:.0f}% in the middle and {100 * regrets[-1]:.0f}% at most."
        )
    return words
