"""The command `import`: acceptance rates from the reports of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from spectheory import engines
from spectheory.cli.options import Force
from spectheory.cli.output import STANDARD_INPUT, console, require_free, standard_input
from spectheory.core.errors import InputError

REPORTS = ", ".join(name for engine in engines.ALL for name in engine.readers)
"""The names of the reports of the engines of this package."""
ReportFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Files of reports: logs and responses are read as one; of two scrapes of /metrics, the first is "
        "subtracted from the second. - reads standard input.",
    ),
]


def reports_of(files: Sequence[str]) -> list[str | Path]:
    """The texts or paths of the reports."""
    given = standard_input() if STANDARD_INPUT in files else ""
    return [given if file == STANDARD_INPUT else Path(file) for file in files]


def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"Kind of the reports, one of {REPORTS}.")],
    files: ReportFiles,
    out: Annotated[Path | None, typer.Option(help="File for the acceptance record.")] = None,
    min_trials: Annotated[
        int, typer.Option(min=1, help="Leave out depths that were reached in fewer cycles than this.")
    ] = 100,
    assume_constant: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LENGTH",
            help="If the report has only totals: assume chains of LENGTH drafted tokens, and one rate for all of them.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Read acceptance rates from what an engine reports: its metrics, log or responses."""
    from spectheory.report.tables import acceptance_rows

    require_free(files, out, force=force)
    found = engines.read_report(reports_of(files), source, min_trials=min_trials, assume_constant=assume_constant)
    if out is not None:
        if found.acceptance is None:
            raise InputError(
                f"{source} reports no acceptance rates by position here: leave out --out, or give the number of tokens "
                "in each draft with --assume-constant"
            )
        found.acceptance.save(out)
    if found.acceptance is not None:
        console.print(acceptance_rows(found.acceptance))
    counts = {"cycles": found.drafts, "tokens drafted": found.drafted, "accepted": found.accepted}
    known = [] if found.tau is None else [f"tau {found.tau:.3f}"]
    known += [f"{count:,} {name}" for name, count in counts.items() if count is not None]
    lines = [f"{source}: {', '.join(known) or 'no totals'}", *(f"assumed: {sentence}" for sentence in found.assumed)]
    for line in [*lines, *([f"wrote {out}"] if out is not None else [])]:
        console.print(Text(line), soft_wrap=True)
