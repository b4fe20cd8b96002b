"""The table of a tuned schedule beside the others that were judged."""

from __future__ import annotations

from spectheory.planning.batch_ranges import span
from spectheory.report.schedules import tree_in_words
from spectheory.report.tables import TextTable
from spectheory.results.tuned import Tuned


def tuned_rows(tuned: Tuned) -> TextTable:
    """Goodput of each judged schedule, and its difference from the tuned one with a 95% interval."""
    rows = []
    for row, name in enumerate(tuned.names):
        less = tuned.against(name)
        rows.append(
            (
                name,
                f"{tuned.mean_goodput[row]:.4g}",
                f"{-less.mean:+.3g} ({-less.high:+.3g} to {-less.low:+.3g})" if row else "",
                f"{1e3 * tuned.ttft_seconds[row].mean():.3g}",
                f"{1e3 * tuned.tpot_seconds[row].mean():.3g}",
            )
        )
    limits = [
        f"{name} at most {1e3 * limit:g} ms"
        for name, limit in (("TTFT", tuned.slo_ttft_seconds), ("TPOT", tuned.slo_tpot_seconds))
        if limit is not None
    ]
    title = f"Requests per second within the limits ({' and '.join(limits) or 'none'}), simulated"
    header = ("schedule", "requests/s", "minus tuned (95% interval)", "TTFT ms", "TPOT ms")
    note = (
        f"{tuned.tried:,} schedules were tried on {tuned.searched} replications of {tuned.load_text}; these are judged "
        f"on {len(tuned.seeds)} others. The tuned one is {tuned.distance:.2%} ({tuned.distance_low:.2%} to "
        f"{tuned.distance_high:.2%}) below the best found, {tuned.best_found}."
    )
    return TextTable(title, header, tuple(rows), note=note)


def tuned_ranges(tuned: Tuned) -> TextTable:
    """What the tuned schedule verifies at each range of batch sizes, and its best chains."""
    ranges = [(span(first, last), tree_in_words(tree)) for first, last, tree in tuned.schedule.ranges()]
    chains = [(span(first, last), tree_in_words(tree)) for first, last, tree in tuned.schedule.chain_ranges()]
    parts = [("tuned", ranges)] + ([("tuned chains", chains)] if chains != ranges else [])
    rows = [(name, *row) for name, found in parts for row in found]
    return TextTable("Tuned schedule", ("schedule", "batch", "verify"), tuple(rows), frozenset({len(ranges)}))
