"""The command `compare`: a plan's prediction against a simulation and a measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import Json
from spectheory.cli.output import console
from spectheory.core.errors import InputError
from spectheory.planning.schedule_record import Schedule
from spectheory.results.tally import Tally

OPTIONS = {"simulate.run": "simulated", "spectheory decode": "measured"}
"""The option for tallies of each source. Tallies of other sources may be given with either option."""


def compare(
    plan: Annotated[Path, typer.Option(help="Plan whose prediction is compared, from `spectheory plan --out`.")],
    simulated: Annotated[
        Path | None, typer.Option(help="Tally of a simulation, from `simulate.run(plan).save(...)`.")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="Tally of a measurement, from `spectheory decode --out`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a plan's prediction with a simulation and with a measurement of the plan."""
    from spectheory.report.tables import comparison_rows
    from spectheory.results.comparison import compare as compared

    tallies = [
        None if path is None else _tally(option, path)
        for option, path in (("simulated", simulated), ("measured", measured))
    ]
    comparison = compared(Schedule.load(plan), *tallies)
    if as_json:
        print(json.dumps(comparison.to_dict(), indent=1))
    else:
        console.print(comparison_rows(comparison))


def _tally(option: str, path: Path) -> Tally:
    """The tally in `path`, given as `--option`. Raises InputError if it belongs to the other option."""
    tally = Tally.load(path)
    source = tally.provenance.source
    if (belongs := OPTIONS.get(source, option)) != option:
        raise InputError(f"--{option} {path} is a {belongs} tally from {source!r}: give it as --{belongs} {path}")
    return tally
