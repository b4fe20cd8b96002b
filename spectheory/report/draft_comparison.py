"""The report of a comparison of drafts: its tables, its sentences, its figure and its page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.ticker import MaxNLocator, PercentFormatter

from spectheory.replay.reliability import BINS, RANKS
from spectheory.report.figures import SERIES
from spectheory.report.page import words_page
from spectheory.report.svg import INK, MARKERS, panels, styled, to_svg
from spectheory.report.tables import MISSING, TextTable
from spectheory.results.draft_comparison import LEVEL, POWER, DraftComparison, DraftRow
from spectheory.results.draft_run import DraftRun, calibration_error

MOST_DEPTHS = 6
"""Depths that a table shows."""


def judged_rows(comparison: DraftComparison) -> list[TextTable]:
    """Tables of the groups compared with the baseline, of acceptance by depth, and of calibration by rank and depth."""
    return [_taus(comparison), _acceptance(comparison), _calibration(comparison)]


def judged_words(comparison: DraftComparison) -> list[str]:
    """The findings in words: what was compared, and each group compared with the baseline."""
    sampled = comparison.provenance.sampling
    single = [row.group for row in comparison.rows if row.runs == 1]
    caveat = (
        f"One run only of {', '.join(single)}: the intervals hold for these weights, and leave out how much another "
        "seed of training would differ."
    )
    return [
        f"{comparison.roots.sum():,} roots in texts of {_clusters(comparison)}: {comparison.policy}, "
        f"verified by {comparison.verifier}{f', {sampled}' if sampled else ''}. The baseline is {comparison.baseline}.",
        *(_finding(row, comparison.baseline) for row in comparison.rows[1:]),
        *([caveat] if single else []),
    ]


def _clusters(comparison: DraftComparison) -> str:
    """The number of clusters, and what they are: prompts, or their sources."""
    return f"{len(comparison.prompts):,} {comparison.provenance.settings.get('clusters', 'prompts')}"


def _finding(row: DraftRow, baseline: str) -> str:
    if row.same:
        return f"{row.group} and {baseline} are the same draft: the difference is exactly 0."
    assert row.difference is not None
    assert row.half is not None
    said = f"{row.difference:+.2f}% ± {row.half:.2f}%"
    seen = f"a true difference of {row.detectable:.2f}% is seen with a probability of {POWER:.0%}"
    if abs(row.difference) > row.half:
        side = "above" if row.difference > 0 else "below"
        return f"E[tau] of {row.group} is {side} that of {baseline}: {said}; {seen}."
    return f"No difference between {row.group} and {baseline} was found: {said}; {seen}."


def _taus(comparison: DraftComparison) -> TextTable:
    rows, everywhere = [], all(row.root_tokens is not None for row in comparison.rows)
    spread = any(row.deviation is not None for row in comparison.rows)
    for row in comparison.rows:
        name = row.group if row.runs == 1 else f"{row.group}, {row.runs} runs"
        cells = [name, f"{row.tau:.3f}\n±{row.tau_half:.3f}"]
        cells += [_number(row.deviation, "{:.3f}")] * spread
        cells += [_difference(row.difference, row.half), _number(row.detectable, "{:.2f}%")]
        if everywhere:
            cells += [f"{row.root_tokens:.3f}", _difference(row.root_difference, row.root_half)]
        rows.append(tuple(cells))
    header = ["draft", "E[tau]", *["seeds"] * spread, "difference", "detectable"]
    header += ["by root", "difference"] * everywhere
    note = (
        f"±: half a {LEVEL:.0%} interval, over {_clusters(comparison)}; differences are from the first row, on "
        "the same texts. "
        f"Detectable: the smallest true difference that is seen with a probability of {POWER:.0%}. "
    )
    note += "Seeds: standard deviation of E[tau] between runs; the differences' intervals hold it. " if spread else ""
    note += "By root: mean tokens of a cycle from every position. " if everywhere else ""
    return TextTable(
        f"E[tau] at {comparison.roots.sum():,} roots of {_clusters(comparison)}: {comparison.policy}, "
        f"{comparison.verifier}",
        tuple(header),
        tuple(rows),
        note=note.strip(),
    )


def _acceptance(comparison: DraftComparison) -> TextTable:
    depths = min(MOST_DEPTHS, len(comparison.runs[0].accepted) - 1)
    rows = [
        (
            name,
            *(f"{_percent(value)}%" for value in _mean(runs, lambda run: run.acceptance)[:depths]),
            f"{100 * np.mean([calibration_error(run.reliability.sum(0))[0] for run in runs]):.1f}%",
        )
        for name, runs in comparison.groups.items()
    ]
    return TextTable(
        "Acceptance by depth: % of the cycles that keep a token there, of those that kept one before",
        ("draft", *map(str, range(1, depths + 1)), "ECE"),
        tuple(rows),
        note=f"ECE: expected calibration error of the draft's first token at all depths, in {BINS} equal parts.",
    )


def _calibration(comparison: DraftComparison) -> TextTable:
    depths = min(MOST_DEPTHS, len(comparison.runs[0].accepted) - 1)
    rows, sections = [], set()
    for name, runs in comparison.groups.items():
        sections.add(len(rows))
        promised, found, error = (
            _mean(runs, part)
            for part in (lambda run: run.confidence, lambda run: run.hits, lambda run: run.calibration_error)
        )
        for rank in range(RANKS):
            cells = [
                f"{_percent(promised[depth, rank])} {_percent(found[depth, rank])}\n±{_percent(error[depth, rank])}"
                for depth in range(depths)
            ]
            rows.append((f"{name} #{rank}", *cells))
    return TextTable(
        "What the draft promises, and what the target gives, by rank and by tokens kept before",
        ("draft, rank", *map(str, range(depths))),
        tuple(rows),
        frozenset(sections - {0}),
        "Mean probability that the draft gives its token of this rank, then how often this is the target's token, in "
        f"percent; below, the expected calibration error in {BINS} equal parts.",
    )


@styled
def judged_figure(comparison: DraftComparison) -> str:
    """Acceptance by depth, and the reliability of the draft's first token, with a line for each group."""
    figure, (acceptance, trust) = panels(columns=2, height_inches=3.1)
    trust.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    for number, (name, runs) in enumerate(comparison.groups.items()):
        look = {"marker": MARKERS[number % len(MARKERS)], "color": SERIES[number % len(SERIES)], "markersize": 4}
        rates = _mean(runs, lambda run: run.acceptance)
        acceptance.plot(np.arange(1, len(rates) + 1), rates, **look, label=name.replace("$", r"\$"))
        visits, promised, hits = np.moveaxis(np.sum([run.reliability for run in runs], (0, 1))[0], -1, 0)
        seen = visits > visits.sum() / 1000
        trust.plot(promised[seen] / visits[seen], hits[seen] / visits[seen], **look)
    for axes in (acceptance, trust):
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    acceptance.xaxis.set_major_locator(MaxNLocator(integer=True))
    acceptance.set(xlabel="depth", ylabel="cycles that keep a token there", title="Acceptance by depth")
    trust.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    trust.set(xlabel="probability of its first token", ylabel="this is the target's token", title="Reliability")
    figure.legend(loc="outside lower center", ncols=3)
    return to_svg(figure, "Acceptance by depth, and how often the draft's first token is the target's token")


def judged_page(title: str, comparison: DraftComparison) -> str:
    """The comparison as one HTML page."""
    figures, stamps = [judged_figure(comparison)], {"comparison": comparison.provenance}
    return words_page(title, judged_words(comparison), figures, judged_rows(comparison), stamps)


def _mean(runs: list[DraftRun], part: Callable[[DraftRun], np.ndarray]) -> np.ndarray:
    """The mean over the runs of one of their tables."""
    return np.mean([part(run) for run in runs], 0)


def _difference(percent: float | None, half: float | None) -> str:
    return MISSING if percent is None else f"{percent:+.2f}%\n±{half:.2f}%"


def _number(value: float | None, pattern: str) -> str:
    return MISSING if value is None else pattern.format(value)


def _percent(share: float) -> str:
    return MISSING if np.isnan(share) else f"{100 * share:.1f}"
