"""The command `import`: acceptance rates from the report of an engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectheory import engines
from spectheory.cli.options import Force, Json
from spectheory.cli.output import STANDARD_INPUT, console, require_free, standard_input
from spectheory.core.errors import InputError
from spectheory.engines import BenchPoint, Statistics

if TYPE_CHECKING:
    from rich.console import RenderableType

    from spectheory.report.tables import TextTable


REPORTS = ", ".join(name for engine in engines.ALL for name in engine.readers)
"""The names of the reports of the engines of this package."""


def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"Kind of the reports, one of {REPORTS}.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Files of reports. Counts of several reports are added; - reads standard input."
        ),
    ],
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
    as_json: Json = False,
) -> None:
    """Convert an engine's report into acceptance rates for `spectheory plan`, and list what had to be assumed."""
    require_free(files, out, force=force)
    found = _read(source, files, min_trials, assume_constant)
    if out is not None:
        _save(found, source, out)
    if as_json:
        print(json.dumps(_plain(found), indent=1))
        return
    for renderable in _shown(found):
        console.print(renderable, markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        console.print(f"wrote {out}", markup=False, highlight=False, soft_wrap=True)


def _read(
    source: str, files: Sequence[str], min_trials: int, assume_constant: int | None
) -> Statistics | list[BenchPoint]:
    given = standard_input() if STANDARD_INPUT in files else ""
    reports = [given if file == STANDARD_INPUT else Path(file) for file in files]
    return engines.read_report(reports, source, min_trials=min_trials, assume_constant=assume_constant)


def _save(found: Statistics | Sequence[BenchPoint], source: str, out: Path) -> None:
    totals = isinstance(found, Statistics)
    if not totals or found.acceptance is None:
        hint = ", or give the number of tokens in each draft with --assume-constant" * totals
        raise InputError(f"{source} reports no acceptance rates by position here: leave out --out{hint}")
    found.acceptance.save(out)


def _plain(found: Statistics | Sequence[BenchPoint]) -> Any:
    """The statistics or points as plain JSON values."""
    if not isinstance(found, Statistics):
        return [asdict(point) for point in found]
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    return values | {"acceptance": found.acceptance and found.acceptance.to_dict()}


def _shown(found: Statistics | Sequence[BenchPoint]) -> list[RenderableType]:
    from spectheory.report.tables import acceptance_rows

    if not isinstance(found, Statistics):
        return [_points(found)]
    rates = [] if found.acceptance is None else [acceptance_rows(found.acceptance)]
    return [*rates, _totals(found), *(f"assumed: {sentence}" for sentence in found.assumed)]


def _totals(found: Statistics) -> str:
    """The totals that are known, in one line."""
    counts = {"cycles": found.drafts, "tokens drafted": found.drafted, "accepted": found.accepted}
    known = [f"{count:,} {name}" for name, count in counts.items() if count is not None]
    known = known if found.tau is None else [f"tau {found.tau:.3f}", *known]
    return f"{found.engine} {found.kind}: {', '.join(known) or 'no totals'}"


def _points(points: Sequence[BenchPoint]) -> TextTable:
    from spectheory.report.tables import MISSING, TextTable

    rows = []
    for point in points:
        shape = (MISSING,) * 3 if point.envelope is None else tuple(map(str, asdict(point.envelope).values()))
        figures = (f"{point.tau:.3f}", f"{1e3 * point.step_seconds:.2f}", f"{point.tokens_per_second:,.1f}")
        rows.append((f"{point.batch_size:,}", *shape, *figures))
    header = ("batch", "levels", "branching", "nodes", "tau", "ms/cycle", "tokens/s")
    note = "Nodes: drafted nodes, the root excluded; - stands for plain decoding. Tokens/s: speed of one request."
    return TextTable("Measured by SGLang's bench_speculative", header, tuple(rows), note=note)
