"""Commands that need no model: plan, simulate, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.acceptance import Acceptance
from spectheory.cli.output import Json, Seed, console, show
from spectheory.cli.scheduling import DEFAULT_CONTEXT, Deployment, batches_of, show_schedule
from spectheory.latency import Latency
from spectheory.plan import Plan
from spectheory.plan import plan as make_plan
from spectheory.tally import Tally


def plan(
    acceptance: Annotated[Path, typer.Option("--acceptance", help="Acceptance record, from `spectheory trace`.")],
    latency: Annotated[
        Path | None, typer.Option("--latency", help="Latency record, from `spectheory profile`.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="In place of --latency: compute forwards for this GPU.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="With --gpu: a known model, or a config.json.")] = None,
    draft: Annotated[str | None, typer.Option("--draft", help="With --gpu: a known model, or a config.json.")] = None,
    gpus: Annotated[int, typer.Option("--gpus", help="With --gpu: how many share each forward.")] = 1,
    batch: Annotated[str, typer.Option("--batch", metavar="N:M", help="With --gpu: 1:256, or 1,8,64.")] = "1",
    engine: Annotated[str | None, typer.Option("--engine", help="With --gpu: vllm,sglang@0.5.23,trtllm.")] = None,
    max_budget: Annotated[int, typer.Option(help="Most drafted nodes.")] = 64,
    max_depth: Annotated[int | None, typer.Option(help="Deepest drafted node.")] = None,
    max_fanout: Annotated[int | None, typer.Option(help="Most children of a node.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens in the KV cache, default the middle one measured, with --gpu 1024.")
    ] = None,
    smooth: Annotated[bool, typer.Option("--smooth", help="Make rates antitonic in rank, seconds rising.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="File for the plan, with --gpu for the schedule.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="With --gpu: file for an HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Choose the tree, the chain, or no speculation that decodes fastest, at one or at each batch size."""
    from spectheory.report.terminal import plan_summary, tree_drawing

    rates = Acceptance.load(acceptance)
    rates = rates.smoothed() if smooth else rates
    limits = {"max_budget": max_budget, "max_depth": max_depth, "max_fanout": max_fanout}
    if (latency is None) == (gpu is None):
        raise ValueError("give either --latency, measured, or --gpu with --target and --draft, to compute forwards")
    if gpu is not None:
        deployment = Deployment(gpu, target, draft, gpus, context or DEFAULT_CONTEXT, batches_of(batch), engine)
        show_schedule(rates, deployment, limits, out, report, as_json)
        return
    seconds = Latency.load(latency)  # type: ignore[arg-type]
    chosen = make_plan(rates, seconds.smoothed() if smooth else seconds, context=context, **limits)
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
