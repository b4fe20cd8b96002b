"""Policies side by side as a figure and a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from spectheory.report.figures import SERIES
from spectheory.report.page import drawn, numbers, shell
from spectheory.report.policies import MEANING, policy_rows
from spectheory.report.svg import INK, MARKERS, RED, panels, styled, to_svg
from spectheory.search.policy_comparison import PolicyComparison, means


@styled
def policy_figure(comparison: PolicyComparison) -> str:
    """E of each policy against its draft calls and against its draft tokens, means over the drafts."""
    figure, axes = panels(columns=2, height_inches=2.9 + 0.07 * len(comparison.names), sharey=True)
    expected, error = means(comparison.expected)
    costs = {"draft calls in a cycle": comparison.draft_calls, "draft tokens in a cycle": comparison.draft_tokens}
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
    """The comparison as one HTML page; `notes` are paragraphs."""
    stamp = comparison.provenance
    return shell(
        title,
        f'<p class="lead">{escape(MEANING)}</p>',
        *(f"<p>{escape(note)}</p>" for note in notes),
        drawn(policy_figure(comparison)),
        numbers(policy_rows(comparison)).replace("<details>", "<details open>"),
        f"<footer>{escape(stamp.source)}; {escape(stamp.created)}; {escape(stamp.machine)}</footer>",
    )
