"""The command `simulate`: decoding with a plan, without models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import Force, Json, Seed
from spectheory.cli.output import Output, require_free, show
from spectheory.planning.plan_record import Plan


def simulate(
    plan: Annotated[Path, typer.Option("--plan", help="Plan to simulate, from `spectheory plan`.")],
    cycles: Annotated[int, typer.Option("--cycles", help="Number of draft-and-verify cycles.")] = 20_000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File for the tally, the counts of the simulation.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Simulate decoding with a plan, without models. Tokens are accepted at the plan's rates or replayed reach."""
    from simulate import run
    from spectheory.report.tables import comparison_rows
    from spectheory.results.comparison import compare

    require_free([plan], Output(out, "tally"), force=force)
    planned = Plan.load(plan)
    tally = run(planned, cycles=cycles, seed=seed)
    show(tally, comparison_rows(compare(planned, tally, None)), as_json=as_json, out=out, force=force)
