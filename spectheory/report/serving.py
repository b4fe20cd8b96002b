"""The table of simulated serving runs, and the answer in words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spectheory.core.tree import Tree
from spectheory.planning.confidence import spans
from spectheory.planning.schedule_record import Schedule
from spectheory.report.tables import MISSING, TextTable
from spectheory.results.serving import Difference, Figures, ServingComparison, ServingRun

ROUNDING = 1e-6
"""Milliseconds below which a difference is rounding."""
COMPARED = {"ttft_seconds": "TTFT", "tpot_seconds": "TPOT", "end_to_end_seconds": "end to end"}
TERMS = (
    "TTFT: time to the first token. TPOT: time per output token after the first, of each request. Token gap: time "
    "between tokens; those of a cycle arrive together, so all but the first of them have 0. Sustained: the highest "
    "rate of such requests at which the queue does not grow. Settles at: the batch size to which this load leads. "
    "Drafted in vain: the share of the drafted tokens that no answer contains. Differences are of the same "
    "requests; ± is half the 95% interval, by batch means of 20 groups."
)


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
    add("goodput, requests/s", lambda run: f"{run.goodput:.2f}" if _limits(run) else MISSING)
    add("sustained requests/s", lambda run: f"{run.stability_limit:.2f}" if run.stability_limit else MISSING)
    add("unfinished requests", lambda run: f"{run.unfinished:,}" if any(one.unfinished for one in runs) else MISSING)
    add("mean batch", lambda run: f"{run.mean_batch:.1f}")
    add("settles at batch", _settled)
    sections.add(len(rows))
    for tree in sorted({tree for run in runs for tree in run.trees if tree.budget}, key=lambda tree: tree.budget):
        kind = "chain" if tree.is_chain else "tree"
        add(f"steps with {kind} {tree.budget}", lambda run, tree=tree: _share(run, tree))
    add("drafted in vain", lambda run: f"{run.wasted / run.drafted:.0%}" if run.drafted else MISSING)
    sections.add(len(rows))
    for figure, name in COMPARED.items():
        add(f"{name} - {runs[0].name}, ms", lambda run, figure=figure: _difference(_found(comparison, run, figure)))
    count, settings = len(runs[0]) + runs[0].unfinished, runs[0].provenance.settings
    rate, concurrency = settings.get("rate"), settings.get("concurrency")
    load = f"{rate:.3g} requests a second" if isinstance(rate, float) else "one time"
    load = f"a concurrency of {concurrency}" if concurrency else load
    title = f"{count:,} request{'s' * (count != 1)} at {load}, simulated"
    lines = frozenset(sections - {0, len(rows)})
    return TextTable(title, ("", *(run.name for run in runs)), tuple(rows), lines, _note(runs[0]))


def serving_answer(comparison: ServingComparison, schedule: Schedule | None = None) -> str:
    """Whether the first schedule after `off` is better than no speculation under this load, and what to watch.

    Args:
        comparison: the runs.
        schedule: the planned schedule, to name the batch sizes at which it speculates; None if there is none.
    """
    off, *others = comparison.runs
    lines = [_verdict(comparison, others[0])] if others and off.name == "off" else []
    if schedule is not None:
        speculates = np.array([schedule.trees[number].budget > 0 for number in schedule.choice])
        planned = spans(schedule.batches, np.ones(len(speculates)))
        drafting = spans(schedule.batches, speculates) or "none"
        lines.append(f"The schedule speculates at batch sizes {drafting} of the planned {planned}.")
    counts = [(run, len(run.settled_batches)) for run in comparison.runs if run.settled_batches is not None]
    lines += [
        f"{run.name} can settle at a batch of {_settled(run)}: after a burst it can stay at the larger one, although "
        "the load fits the smaller one."
        for run, count in counts
        if count > 1
    ]
    if growing := [run.name for run, count in counts if not count]:
        lines.append(
            f"This load is more than is sustained by: {', '.join(growing)}. Their queues grow for as long as requests "
            "arrive, so their times and goodput depend on how many requests there are."
        )
    return "\n".join(lines)


def _verdict(comparison: ServingComparison, run: ServingRun) -> str:
    """Whether `run` is better than the first one: by the share of requests within the limits, else by the times."""
    off = comparison.runs[0]
    within = _found(comparison, run, "slo_share") if _limits(run) else None
    if within is not None and within.mean and _is_clear(within):
        shares = [f"{one.meets_slo.mean():.1%}" if len(one) else "0%" for one in (run, off)]
        said = f"{shares[0]} of its requests are within the limits, and {shares[1]} without speculation"
        return f"Speculation {'pays' if within.mean > 0 else 'does not pay'} at this load: with {run.name}, {said}."
    what, timed = "token", _found(comparison, run, "tpot_seconds")
    if timed is None:
        what, timed = "request", _found(comparison, run, "end_to_end_seconds")
    if timed is None:
        return "No request was completed both with and without speculation: simulate for longer."
    before, after = (_ms(one.tpot if what == "token" else one.end_to_end, "mean") for one in (off, run))
    said = (
        f"with {run.name}, a {what} takes {after} ms instead of {before} ms, at a mean batch of {run.mean_batch:.1f} "
        f"instead of {off.mean_batch:.1f}"
    )
    if not timed.mean:
        return "Speculation changes nothing at this load."
    if not _is_clear(timed):
        return f"Whether speculation pays at this load is not clear: {said}. Simulate more requests."
    return f"Speculation {'pays' if timed.mean < 0 else 'does not pay'} at this load: {said}."


def _found(comparison: ServingComparison, run: ServingRun, figure: str) -> Difference | None:
    every = comparison.differences
    return next((one for one in every if (one.name, one.figure) == (run.name, figure)), None)


def _is_clear(one: Difference) -> bool:
    """Whether the whole interval of a difference is on one side of 0."""
    return one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)


def _difference(one: Difference | None) -> str:
    if one is None:
        return MISSING
    half = "" if one.low is None else f"\n±{_half(1e3 * (one.mean - one.low))}"
    return f"{'+' if one.mean > 0 else ''}{_number(1e3 * one.mean)}{half}"


def _half(width: float) -> str:
    """Half the width of an interval; widths of rounding errors are 0."""
    return "0" if width < ROUNDING else f"{width:.2g}" if width < 99.5 else f"{width:,.0f}"


def _limits(run: ServingRun) -> str:
    """The limits on latency, such as `TTFT at most 500 ms and TPOT at most 20 ms`; empty without any."""
    limits = (("TTFT", run.slo_ttft_seconds), ("TPOT", run.slo_tpot_seconds))
    return " and ".join(f"{name} at most {1e3 * limit:g} ms" for name, limit in limits if limit is not None)


def _note(run: ServingRun) -> str:
    settings, said = run.provenance.settings, TERMS
    if limits := _limits(run):
        said = f"Goodput counts the requests within the limits: {limits}. {said}"
    if "max_sequences" not in settings:
        return said
    kv = settings.get("kv_tokens")
    memory = "no limit on the KV memory" if kv is None else f"KV memory for {kv:,} tokens"
    most = f"at most {settings['max_sequences']:,} sequences, {settings['batched_tokens']:,} tokens in a step"
    return f"Server: {most}, {memory}. {said}"


def _ms(figures: Figures | None, label: str) -> str:
    return MISSING if figures is None else _number(1e3 * getattr(figures, label))


def _number(value: float) -> str:
    """Four digits, and all digits of larger numbers."""
    return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"


def _share(run: ServingRun, tree: Tree) -> str:
    of_tree = np.array([one == tree for one in run.trees])
    return f"{run.tier_steps[of_tree].sum() / max(1, run.tier_steps.sum()):.0%}" if of_tree.any() else MISSING


def _settled(run: ServingRun) -> str:
    if run.settled_batches is None:
        return MISSING
    return " or ".join(f"{batch:.1f}" for batch in run.settled_batches) or "none"
