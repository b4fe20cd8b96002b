"""The report of a policy comparison: its table, its figure and its page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from spectheory.report.figures import SERIES
from spectheory.report.page import figure_html, folded_table, shell, sources_html
from spectheory.report.svg import INK, MARKERS, RED, panels, styled, to_svg
from spectheory.report.tables import MISSING, TextTable
from spectheory.search.policy_comparison import Means, PolicyComparison, means

COUNTS = {"nodes": "nodes", "depth": "depth", "calls": "draft_calls", "tokens": "draft_tokens"}
MEANING = "E: expected tokens per target call, if each drafted token is accepted with the draft's own probability."


def policy_rows(comparison: PolicyComparison) -> TextTable:
    """One row for each policy, with the standard error below each mean.

    The last row is the optimum. It is left out if the policies have different budgets.
    """
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
        time = " Ms: time of one cycle; a draft call is timed by its number of tokens."
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
        note=f"{MEANING} Short: by how much E is below the optimum, the best tree of the same budget. Calls: draft "
        f"forwards per cycle. Tokens: number of nodes that these forwards expand.{time}",
    )


@styled
def policy_figure(comparison: PolicyComparison) -> str:
    """E of each policy against its draft calls and its draft tokens. All values are means over the drafts."""
    figure, axes = panels(columns=2, height_inches=2.9 + 0.07 * len(comparison.names), sharey=True)
    expected, error = means(comparison.expected)
    costs = {"draft calls per cycle": comparison.draft_calls, "draft tokens per cycle": comparison.draft_tokens}
    for panel, (label, cost) in zip(axes, costs.items(), strict=True):
        for best in sorted(set(comparison.optimum.mean(1).tolist())):
            panel.axhline(best, color=RED, linewidth=1, linestyle=":", label="optimum")
        for i, (name, x, y) in enumerate(zip(comparison.names, cost.mean(1), expected, strict=True)):
            marker, colour = MARKERS[i % len(MARKERS)], SERIES[(i + i // len(MARKERS)) % len(SERIES)]
            panel.plot(x, y, marker, color=colour, fillstyle="none", label=name.replace("$", r"\$"))
        panel.vlines(cost.mean(1), expected - error, expected + error, color=INK, linewidth=0.8)
        panel.set_xscale("symlog", base=2, linthresh=1)  # a policy may draft nothing
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set(xlabel=label)
    axes[0].set(ylabel="E, tokens per target call", title="What drafting buys")
    handles = dict(zip(*axes[0].get_legend_handles_labels()[::-1], strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return to_svg(
        figure, "Expected tokens per target call against draft calls and draft tokens, a mark for each policy"
    )


def policy_page(title: str, comparison: PolicyComparison, notes: Sequence[str] = ()) -> str:
    """The comparison as one HTML page. `notes` become paragraphs."""
    return shell(
        title,
        f'<p class="lead">{escape(MEANING)}</p>',
        *(f"<p>{escape(note)}</p>" for note in notes),
        figure_html(policy_figure(comparison)),
        folded_table(policy_rows(comparison), is_open=True),
        sources_html({"comparison": comparison.provenance}),
    )


def _values(values: np.ndarray, pattern: str) -> list[str]:
    return [pattern.format(value) for value in values]


def _with_errors(column: Means, pattern: str) -> list[str]:
    return [
        pattern.format(value) + ("" if np.isnan(error) else f"\n±{pattern.format(error)}")
        for value, error in zip(*column, strict=True)
    ]
