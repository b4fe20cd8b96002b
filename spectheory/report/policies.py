"""Policies side by side as a table of text."""

from __future__ import annotations

import numpy as np

from spectheory.report.tables import MISSING, TextTable
from spectheory.search.policy_comparison import Means, PolicyComparison, means

COUNTS = {"nodes": "nodes", "depth": "depth", "calls": "draft_calls", "tokens": "draft_tokens"}
MEANING = "E: tokens per target call if the target accepted each drafted token at the draft's own rate."


def policy_rows(comparison: PolicyComparison) -> TextTable:
    """A row for each policy, below each mean its standard error; last the optimum, where all budgets are one."""
    drafts, budgets = comparison.expected.shape[1], np.unique(comparison.budget)
    counts = COUNTS if len(budgets) == 1 else {"budget": "budget"} | COUNTS
    whole = "{:,.0f}" if drafts == 1 else "{:,.1f}"
    columns = {"policy": list(comparison.names)}
    for column, name in counts.items():
        columns[column] = _values(means(getattr(comparison, name)).value, whole)
    columns["E"] = _with_errors(means(comparison.expected), "{:.3f}")
    columns["short"] = _with_errors(means(comparison.distance), "{:.3f}")
    time = ""
    if comparison.speedup is not None and comparison.cycle_seconds is not None:
        columns["ms"] = _values(1e3 * comparison.cycle_seconds.mean(1), "{:.2f}")
        columns["speedup"] = _with_errors(comparison.speedup, "{:.2f}x")
        time = " Ms: of one cycle, each draft call timed with its width."
    rows = list(zip(*columns.values(), strict=True))
    if len(budgets) == 1:
        optimum = {"policy": "optimum", "E": _with_errors(means(comparison.optimum[:1]), "{:.3f}")[0]}
        rows.append(tuple(optimum.get(column, MISSING) for column in columns))
    allowed = f"{budgets[0]:,} drafted nodes" if len(budgets) == 1 else "each within its own budget"
    return TextTable(
        title=f"Policies, {allowed}" + (f": means over {drafts:,} drafts, ± standard error" if drafts > 1 else ""),
        header=tuple(columns),
        rows=tuple(rows),
        sections=frozenset(range(len(comparison.names), len(rows))),
        note=f"{MEANING} Short: what the best tree of the same budget has more. Calls and tokens: forwards of the "
        f"draft, and the nodes they expand.{time}",
    )


def _values(values: np.ndarray, pattern: str) -> list[str]:
    return [pattern.format(value) for value in values]


def _with_errors(column: Means, pattern: str) -> list[str]:
    return [
        pattern.format(value) + ("" if np.isnan(error) else f"\n±{pattern.format(error)}")
        for value, error in zip(*column, strict=True)
    ]
