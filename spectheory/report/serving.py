"""Tables of simulated serving runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spectheory.core.tree import Tree
from spectheory.report.tables import MISSING, TextTable
from spectheory.results.serving_comparison import ServingComparison
from spectheory.results.serving_run import Figures, ServingRun

COMPARED = {"ttft_seconds": "TTFT", "tpot_seconds": "TPOT", "end_to_end_seconds": "end to end"}


def serving_rows(comparison: ServingComparison) -> TextTable:
    """The figures of each run in a column of its own, then the differences from the first run."""
    runs, rows, sections = comparison.runs, [], set()

    def add(name: str, cell: Callable[[ServingRun], str]) -> None:
        cells = [cell(run) for run in runs]
        if set(cells) != {MISSING}:
            rows.append((name, *cells))

    def section(name: str, figures: Callable[[ServingRun], Figures | None]) -> None:
        sections.add(len(rows))
        for label in ("mean", "p50", "p90", "p99"):
            add(f"{name} {label}, ms", lambda run, label=label: _ms(figures(run), label))

    section("TTFT", lambda run: run.ttft)
    section("TPOT", lambda run: run.tpot)
    section("token gap", lambda run: run.inter_token_seconds)
    section("end to end", lambda run: run.end_to_end)
    sections.add(len(rows))
    add("tokens/s", lambda run: f"{run.tokens_per_second:,.0f}")
    add("requests/s", lambda run: f"{run.requests_per_second:.2f}")
    add("goodput, requests/s", lambda run: f"{run.goodput:.2f}" if _limited(run) else MISSING)
    add("sustained requests/s", lambda run: f"{run.stability_limit:.2f}" if run.stability_limit else MISSING)
    add("unfinished requests", lambda run: f"{run.unfinished:,}" if any(one.unfinished for one in runs) else MISSING)
    add("mean batch", lambda run: f"{run.mean_batch:.1f}")
    add("settles at batch", _settled)
    sections.add(len(rows))
    for tree in dict.fromkeys(tree for run in runs for tree in run.trees if tree.budget):
        kind = "chain" if tree.is_chain else "tree"
        add(f"steps with {kind} {tree.budget}", lambda run, tree=tree: _share(run, tree))
    add("drafted in vain", lambda run: f"{run.wasted / run.drafted:.0%}" if run.drafted else MISSING)
    sections.add(len(rows))
    for figure, name in COMPARED.items():
        add(f"{name} - {runs[0].name}, ms", lambda run, figure=figure: _difference(comparison, run.name, figure))
    title = f"{len(runs[0]):,} requests at {_load(runs[0])}, simulated"
    note = "Token gap: the tokens of a cycle arrive together, so all but the first of them have 0."
    if len(runs) > 1:
        note += " Differences are of the same requests; ± is half the 95% interval, by batch means of 20 groups."
    return TextTable(title, ("", *(run.name for run in runs)), tuple(rows), frozenset(sections - {0, len(rows)}), note)


def _ms(figures: Figures | None, label: str) -> str:
    return MISSING if figures is None else f"{1e3 * getattr(figures, label):.4g}"


def _limited(run: ServingRun) -> bool:
    return run.slo_ttft_seconds is not None or run.slo_tpot_seconds is not None


def _share(run: ServingRun, tree: Tree) -> str:
    of_tree = np.array([one == tree for one in run.trees])
    return f"{run.tier_shares[of_tree].sum():.0%}" if of_tree.any() else MISSING


def _settled(run: ServingRun) -> str:
    if run.settled_batches is None:
        return MISSING
    return " or ".join(f"{batch:.1f}" for batch in run.settled_batches) or "none"


def _difference(comparison: ServingComparison, name: str, figure: str) -> str:
    found = [one for one in comparison.differences if (one.name, one.figure) == (name, figure)]
    if not found:
        return MISSING
    one = found[0]
    half = "" if one.low is None else f"\n±{1e3 * (one.mean - one.low):,.2g}"
    return f"{1e3 * one.mean:+,.4g}{half}"


def _load(run: ServingRun) -> str:
    settings = run.provenance.settings
    if settings.get("concurrency"):
        return f"a concurrency of {settings['concurrency']}"
    rate = settings.get("rate")
    return f"{rate:.3g} a second" if isinstance(rate, float) else "once"
