"""Tables of text for acceptance, latency, plans and comparisons. Terminal, pages and Markdown show the same tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spectheory.core.acceptance import Acceptance
from spectheory.core.ratios import clusters
from spectheory.core.tree import Tree
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import NAMES
from spectheory.hardware.latency import Latency
from spectheory.hardware.runs import Run
from spectheory.planning.schedule_record import Schedule, tree_in_words
from spectheory.replay import CycleEnds, Replayed, Replays
from spectheory.results.plan_comparison import PlanComparison

if TYPE_CHECKING:
    from rich.console import Group

MISSING = "-"
MOST_ACCEPTED = 8
"""Numbers of accepted tokens up to this one get their own row. Larger ones share one row."""


@dataclass(frozen=True)
class TextTable:
    """A table of text. The first column names the row, the others hold numbers. A cell may have a second line.

    Attributes:
        sections: indices of the rows that start a new section.
        title, note: text above and below the table; may be empty.
        grey: indices of the rows that are grey.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sections: frozenset[int] = frozenset()
    note: str = ""
    grey: frozenset[int] = frozenset()

    def __rich__(self) -> Group:
        """The table as rich prints it, with its title above and its note below."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for i, name in enumerate(self.header):
            drawn.add_column(Text(name), justify="right" if i else "left", no_wrap=True)
        for i, row in enumerate(self.rows):
            if i in self.sections:
                drawn.add_section()
            halves = (text.partition("\n") for text in row)
            cells = (Text(first).append(line + second, style="dim") for first, line, second in halves)
            drawn.add_row(*cells, style="dim" if i in self.grey else None)
        title = [Text(self.title, style="italic")] if self.title else []
        return Group(*title, drawn, *([Text(self.note)] if self.note else []))


def markdown_table(table: TextTable) -> str:
    """Title, table and note in Markdown. The two lines of a cell are joined by a space."""
    rows = [table.header, ("---",) * len(table.header), *table.rows]
    drawn = "\n".join(f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in rows)
    return "\n\n".join(part for part in (table.title, drawn, table.note) if part) + "\n"


def replayed_rows(texts: Replays, replayed: Sequence[tuple[Tree, str, Replayed]], most: int = 5) -> TextTable:
    """Tau of each tree and verifier with its 95% interval, and the shares of cycles that keep 1, 2, ... tokens."""
    deepest = min(most, max(tree.max_depth for tree, _, _ in replayed))
    rows, sections = [], set()
    for number, (tree, verifier, one) in enumerate(replayed):
        if number and tree != replayed[number - 1][0]:
            sections.add(number)
        kept = one.accepted[::-1].cumsum()[::-1][1:] / one.accepted.sum()
        shares = [f"{100 * share:.0f}%" for share in kept[:deepest]]
        half = _interval(one.tau_interval() if clusters(one.cycles) > 1 else None)
        rows.append((_drafted(tree, verifier), f"{one.tau:.3f}", half, *shares, *[""] * (deepest - len(shares))))
    clusters_given = f" in {len(set(texts.sources)):,} clusters" if texts.sources else ""
    return TextTable(
        title=f"Tokens per target call, replayed on {len(texts.texts):,} texts{clusters_given}",
        header=("drafted, verified by", "tau", "95% interval", *map(str, range(1, deepest + 1))),
        rows=tuple(rows),
        sections=frozenset(sections) if len(sections) + 1 < len(rows) else frozenset(),
        note="1, 2, ...: % of cycles that keep at least that many drafted tokens",
    )


def _drafted(tree: Tree, verifier: str) -> str:
    return f"{tree_in_words(tree)}, {verifier}"


def cycle_ends_rows(tree: Tree, verifier: str, ends: CycleEnds) -> TextTable:
    """By number of kept tokens: shares of cycles that get there and that end there, and tau without misses there."""
    rows = []
    for kept, shares in enumerate(zip(ends.reached, ends.no_child, ends.missed, strict=True)):
        perfect = [f"{tau:.3f}" for tau in ends.without_misses[kept : kept + 1]]
        rows.append((f"{kept}", *(f"{100 * share:.1f}%" for share in shares), *(perfect or [""])))
    note = "% of all cycles. No child: nothing was drafted below. Missed: children were drafted, and none was kept."
    if ends.closer:
        note += "\nNo misses: tau if the first child there were always the next token, all else as recorded.\n"
        note += "; ".join(
            f"a draft {share:.0%} closer to the target: tau {tau:.3f}" for share, tau in ends.closer.items()
        )
    header = ("tokens kept", "reached", "no child", "missed", "no misses")
    return TextTable(
        f"Where cycles end: {_drafted(tree, verifier)}, tau {ends.tau:.3f}", header, tuple(rows), note=note
    )


def acceptance_rows(acceptance: Acceptance, max_depth: int = 6, max_rank: int = 8) -> TextTable:
    """Rates in percent by depth and rank, with half-widths of 95% intervals, the row sums and the trials."""
    depths, ranks = min(acceptance.depths, max_depth), min(acceptance.ranks, max_rank)
    row_sum = np.minimum(acceptance.table.sum(1, keepdims=True), 1.0)
    rates = 100 * np.hstack([acceptance.table[:, :ranks], row_sum])
    cells = np.char.mod("%.1f", rates[:depths])
    trials = [MISSING] * depths
    if acceptance.hits is not None and acceptance.trials is not None:
        total = Acceptance(row_sum, acceptance.hits.sum(1, keepdims=True), acceptance.trials)
        limits = acceptance.interval(), total.interval()
        halves = 50 * np.hstack([high[:depths, :ranks] - low[:depths, :ranks] for low, high in limits])
        cells = np.char.add(cells, np.char.mod("\n±%.1f", halves))
        trials = [f"{n:,}" for n in acceptance.trials[:depths]]
    deeper = "+" if depths == acceptance.depths else ""
    names = [*map(str, range(1, depths)), f"{depths}{deeper}"]
    axes = ((depths, acceptance.depths, "depths"), (ranks, acceptance.ranks, "ranks"))
    cut = [f"{shown} of {total} {axis}" for shown, total, axis in axes if shown < total]
    return TextTable(
        title="Acceptance: % of visits in which the child of each rank is accepted"
        + ", ± at 95%" * (trials[0] != MISSING),
        header=("depth", *(f"#{r}" for r in range(ranks)), "any", "trials"),
        rows=tuple((name, *row, n) for name, row, n in zip(names, cells.tolist(), trials, strict=True)),
        note=f"{' and '.join(cut)} shown" if cut else "",
    )


def latency_rows(latency: Latency) -> TextTable:
    """Milliseconds per forward by context and tokens, with half the interquartile range and the ratio to one token."""
    rows = []
    for c, context in enumerate(latency.contexts):
        for n, tokens in enumerate(latency.tokens):
            cells = []
            for seconds, spread in (
                (latency.target_seconds, latency.target_spread_seconds),
                (latency.draft_seconds, latency.draft_spread_seconds),
            ):
                half = MISSING if spread is None else f"{500 * spread[c, n]:.2f}"
                cells += [f"{1e3 * seconds[c, n]:.2f}", half, f"{seconds[c, n] / seconds[c, 0]:.2f}"]
            rows.append((f"{context:,}", f"{tokens:,}", *cells))
    size = len(latency.tokens)
    return TextTable(
        title="Latency: median ms per forward, ± half the interquartile range, x times one token",
        header=("context", "tokens", "target ms", "±", "x", "draft ms", "±", "x"),
        rows=tuple(rows),
        sections=frozenset(range(size, len(rows), size)),
        note=f"outside the forwards: {1e3 * latency.overhead_seconds:.2f} ms per cycle and "
        f"{1e3 * latency.level_overhead_seconds:.2f} ms {'for all' if latency.drafts_at_once else 'per'} drafted "
        f"level{'s' if latency.drafts_at_once else ''}, "
        f"{1e3 * latency.plain_overhead_seconds:.2f} ms per plain step",
    )


def plan_rows(plan: Schedule) -> TextTable:
    """Where the predicted time of a cycle goes."""
    rows = [(name, _ms(s), f"{s / plan.cycle_seconds:.0%}") for name, s in plan.cycle_parts().items()]
    rows += [
        ("cycle", _ms(plan.cycle_seconds), "100%"),
        ("per token", _ms(plan.cycle_seconds / plan.tau), ""),
        ("plain decoding, per token", _ms(plan.plain_seconds), ""),
    ]
    title = "Predicted time of a cycle"
    return TextTable(title, ("", "ms", "share"), tuple(rows), frozenset({3, 4}))


def comparison_rows(comparison: PlanComparison) -> TextTable:
    """Prediction and measurement in one column each. The note below is the verdict."""
    plan, tally, shares = comparison.plan, comparison.tally, comparison.accepted
    rows: list[tuple[str, ...]] = [
        ("tau", f"{plan.tau:.3f}", f"{tally.tau:.3f}"),
        ("95% interval", *map(_interval, (plan.tau_interval, comparison.interval))),
        ("speedup", f"{plan.speedup:.2f}x", _or_missing(tally.speedup, "{:.2f}x")),
    ]
    sections = {len(rows)}
    longest = max(map(len, shares))
    for n in range(min(longest, MOST_ACCEPTED + 1)):
        rows.append((f"accepted {n}", *(f"{each[n : n + 1].sum():.1%}" for each in shares)))
    if longest > MOST_ACCEPTED + 1:
        rows.append((f"accepted {MOST_ACCEPTED + 1}+", *(f"{each[MOST_ACCEPTED + 1 :].sum():.1%}" for each in shares)))
    sections.add(len(rows))
    measured = comparison.cycle_seconds or {}
    for part, seconds in plan.cycle_parts().items():
        rows.append((f"{part} ms per cycle", _ms(seconds), _ms(measured.get(part))))
    plain = tally.plain_seconds / tally.plain_tokens if tally.plain_tokens else None
    rows.append(("plain ms per token", _ms(plan.plain_seconds), _ms(plain)))
    sections.add(len(rows))
    facts = {
        "requests": f"{len(tally.cycles):,}",
        "cycles": f"{tally.cycles.sum():,}",
        "repeated 4-grams in text": _or_missing(tally.repeated_share, "{:.0%}"),
        "text equal to plain": f"{tally.identical:,} of {tally.compared:,}" if tally.compared else MISSING,
    }
    verifiers = [one.provenance.verifier or MISSING for one in (plan, tally)]
    rows += [("verifier", *(name.replace("solver=", "").replace("()", "") for name in verifiers))]
    rows += [(name, MISSING, fact) for name, fact in facts.items() if fact != MISSING]
    header = ("", "theory", "measurement")
    return TextTable("Prediction against measurement", header, tuple(rows), frozenset(sections), comparison.verdict)


def run_rows(found: CalibratedCosts) -> TextTable:
    """Each run with the tokens per second that were measured, and predicted before and after the calibration."""
    every = zip(found.runs, found.seconds_before, found.seconds_after, found.residuals, strict=True)
    rows = tuple(
        (
            _named(run),
            f"{run.tokens_per_second:,.4g}",
            *(f"{run.tokens_per_second * run.seconds / seconds:,.4g}" for seconds in (before, after)),
            f"{residual:+.1%}",
        )
        for run, before, after, residual in every
    )
    header = "run", "measured", "before", "after", "off by"
    return TextTable("tokens per second of all sequences, predicted before and after the calibration", header, rows)


def moved_rows(found: CalibratedCosts) -> TextTable:
    """The factor of all times, and the numbers that have moved by 5% or more besides."""
    rows = tuple((name, f"{before:.3g}", f"{after:.3g}") for name, (before, after) in found.moved.items())
    note = f"the other {len(NAMES) - len(rows)} numbers have moved by less than 5%, or not at all"
    title = f"costs of {found.engine}: all times x {found.factor:.3f}, and numbers that have moved besides"
    return TextTable(title, ("number", "before", "after"), rows, note=note)


def _named(run: Run) -> str:
    conditions = [f"batch {run.batch:.4g}", f"context {run.context:,.0f}"]
    if run.kind == "forward":
        conditions.append(f"{run.tokens} tokens each")
    if run.tau is not None:
        chain = f"chain {run.depth}" if run.tokens - 1 == run.depth else f"tree {run.tokens - 1}:{run.depth}"
        conditions += [chain, f"tau {run.tau:.3g}"]
    return f"{run.source or run.kind}\n{', '.join(conditions)}"


def _interval(limits: tuple[float, float] | None) -> str:
    return MISSING if limits is None else f"{limits[0]:.3f} to {limits[1]:.3f}"


def _ms(seconds: float | None) -> str:
    return MISSING if seconds is None else f"{1e3 * seconds:.2f}"


def _or_missing(value: float | None, pattern: str) -> str:
    return MISSING if value is None else pattern.format(value)
