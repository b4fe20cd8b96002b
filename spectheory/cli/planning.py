"""Commands that need no model: plan, simulate, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.acceptance import Acceptance
from spectheory.cli.output import Json, Seed, console, show
from spectheory.latency import Latency
from spectheory.plan import Plan
from spectheory.plan import plan as make_plan
from spectheory.tally import Tally


def plan(
    acceptance: Annotated[Path, typer.Option("--acceptance", help="Acceptance record, from `spectheory trace`.")],
    latency: Annotated[Path, typer.Option("--latency", help="Latency record, from `spectheory profile`.")],
    max_budget: Annotated[int, typer.Option(help="Most drafted nodes.")] = 64,
    max_depth: Annotated[int | None, typer.Option(help="Deepest drafted node.")] = None,
    max_fanout: Annotated[int | None, typer.Option(help="Most children of a node.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens in the KV cache, default the middle one measured.")
    ] = None,
    smooth: Annotated[bool, typer.Option("--smooth", help="Make rates antitonic in rank, seconds rising.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="File for the plan.")] = None,
    as_json: Json = False,
) -> None:
    """Choose the tree, the chain, or no speculation that decodes fastest."""
    from spectheory.report.terminal import plan_summary, tree_drawing

    rates, seconds = Acceptance.load(acceptance), Latency.load(latency)
    if smooth:
        rates, seconds = rates.smoothed(), seconds.smoothed()
    chosen = make_plan(
        rates, seconds, max_budget=max_budget, max_depth=max_depth, max_fanout=max_fanout, context=context
    )
    show(chosen, plan_summary(chosen), tree_drawing(chosen.tree, chosen.reach), as_json=as_json, out=out)


def simulate(
    plan: Annotated[Path, typer.Option("--plan", help="The plan to play.")],
    cycles: Annotated[int, typer.Option(help="Draft-and-verify cycles.")] = 20_000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File for the tally.")] = None,
    as_json: Json = False,
) -> None:
    """Play a plan against a world in which its rates are exactly true."""
    from simulate import run
    from spectheory.report.compare import compare as lay
    from spectheory.report.terminal import comparison_table

    planned = Plan.load(plan)
    tally = run(planned, cycles=cycles, seed=seed)
    show(tally, comparison_table(lay(planned, tally, None)), as_json=as_json, out=out)


def compare(
    plan: Annotated[Path, typer.Option("--plan", help="The plan that predicted.")],
    simulated: Annotated[Path | None, typer.Option(help="Tally of `spectheory simulate`.")] = None,
    measured: Annotated[Path | None, typer.Option(help="Tally of `spectheory decode`.")] = None,
    as_json: Json = False,
) -> None:
    """Lay theory, simulation and measurement side by side."""
    import json

    from spectheory.report.compare import compare as lay
    from spectheory.report.terminal import comparison_table

    tallies = [path and Tally.load(path) for path in (simulated, measured)]
    comparison = lay(Plan.load(plan), *tallies)
    if as_json:
        print(json.dumps(comparison.to_dict(), indent=1))
    else:
        console.print(comparison_table(comparison))
