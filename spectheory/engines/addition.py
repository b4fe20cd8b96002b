"""Several reports of one engine as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spectheory.core.errors import InputError
from spectheory.engines.names import title
from spectheory.engines.statistics import TOTALS_ONLY, Statistics, added, from_positions


def added_reports(reports: Sequence[Statistics], *, min_trials: int) -> Statistics:
    """Several reports of one engine and kind as one, their counts added; each must have its own cycles.

    Counters of one server at two times are not such: the later ones hold the earlier.

    Raises:
        InputError: the reports have no counts, or all together have fewer than `min_trials`.
    """
    engine, kind = reports[0].engine, reports[0].kind
    drafts, drafted, accepted = (_sum(getattr(r, name) for r in reports) for name in ("drafts", "drafted", "accepted"))
    said = [f"{len(reports)} reports are added, each taken to have its own cycles"]
    if all(report.acceptance and report.acceptance.trials is not None for report in reports):
        found = _from_counts(reports, min_trials)
        for report in reports:
            of_counts = _from_counts([report], 1).assumed
            said += [sentence for sentence in report.assumed if sentence not in of_counts]
        return replace(found, assumed=tuple(dict.fromkeys((*found.assumed, *said))))
    if any(report.acceptance for report in reports) or drafted is None or accepted is None:
        raise InputError(f"reports must have counts to be added, {title(engine)} {kind} has none: pass one")
    tau = None if drafts is None else 1 + accepted / drafts
    return Statistics(engine, kind, None, tau, drafts, drafted, accepted, (TOTALS_ONLY, *said))


def _from_counts(reports: Sequence[Statistics], min_trials: int) -> Statistics:
    """The sum of reports of chains with counts by position."""
    rates = [report.acceptance for report in reports if report.acceptance is not None]
    rows = [(r.hits[:, 0].tolist(), r.trials.tolist()) for r in rates if r.hits is not None and r.trials is not None]
    hits, trials = added(rows)
    return from_positions(
        reports[0].engine,
        reports[0].kind,
        hits=hits,
        trials=trials,
        drafts=_sum(report.drafts for report in reports) or 0,
        drafted=_sum(report.drafted for report in reports),
        min_trials=min_trials,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum, None where one is."""
    every = list(values)
    return None if None in every else sum(value or 0 for value in every)
