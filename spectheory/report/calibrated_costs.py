"""Tables of calibrated costs: the runs with their predictions, and the numbers that have moved."""

from __future__ import annotations

from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.runs import Run
from spectheory.report.tables import TextTable


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
    note = f"the other {len(found.spreads) - len(rows)} numbers have moved by less than 5%, or not at all"
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
