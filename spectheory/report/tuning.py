"""The table that compares a tuned schedule with the others that were judged."""

from __future__ import annotations

from spectheory.planning.confidence import span
from spectheory.report.schedules import tree_in_words
from spectheory.report.serving import limits_in_words
from spectheory.report.tables import TextTable
from spectheory.results.tuned import TUNED, Tuned


def tuned_rows(tuned: Tuned) -> TextTable:
    """Goodput of each judged schedule, and its difference from the tuned one with a 95% interval."""
    rows = []
    for row, name in enumerate(tuned.names):
        less = tuned.against(name)
        rows.append(
            (
                name,
                f"{tuned.mean_goodput[row]:.4g}",
                f"{0 - less.mean:+.3g} ({0 - less.high:+.3g} to {0 - less.low:+.3g})" if row else "",
                f"{1e3 * tuned.ttft_seconds[row].mean():.3g}",
                f"{1e3 * tuned.tpot_seconds[row].mean():.3g}",
            )
        )
    limits = limits_in_words(tuned.slo_ttft_seconds, tuned.slo_tpot_seconds)
    title = f"Requests per second within the limits ({limits}), simulated"
    header = ("schedule", "requests/s", "minus tuned (95% interval)", "TTFT ms", "TPOT ms")
    ends = f"{tuned.distance:.2%} ({tuned.distance_low:.2%} to {tuned.distance_high:.2%})"
    verdict = f"is {ends} below the best found, {tuned.best_found}"
    if tuned.best_found == TUNED:
        verdict = "is the best found"
    if not tuned.goodput.any():
        verdict = "has no request within the limits, nor has any other: the limits are too strict for this server"
    note = (
        f"{tuned.tried:,} schedules were tried on {tuned.searched} replications of {tuned.load_text}; these are judged "
        f"on {len(tuned.seeds)} others, on which the tuned one {verdict}. TTFT, the time to the first token, and TPOT, "
        "the time per output token, are means. Runners-up: the next best schedules of the search."
    )
    return TextTable(title, header, tuple(rows), note=note)


def tuned_ranges(tuned: Tuned) -> TextTable:
    """What the tuned schedule verifies at each range of batch sizes, and its best chains."""
    ranges = [(span(first, last), tree_in_words(tree)) for first, last, tree in tuned.schedule.ranges()]
    chains = [(span(first, last), tree_in_words(tree)) for first, last, tree in tuned.schedule.chain_ranges()]
    parts = [("tuned", ranges)] + ([("tuned chains", chains)] if chains != ranges else [])
    rows = [(name, *row) for name, found in parts for row in found]
    return TextTable("Tuned schedule", ("schedule", "batch", "verify"), tuple(rows), frozenset({len(ranges)}))
