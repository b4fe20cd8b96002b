"""Commands that need no model: plan, simulate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from spectheory.cli.exporting import Exports
from spectheory.cli.output import PAGE, Force, Json, Output, Seed, loaded, progress, require_free, show, warn
from spectheory.cli.scheduling import DEFAULT_CONTEXT, Deployment, batches_of, show_schedule
from spectheory.cli.writing import Writing
from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.engines import ALL
from spectheory.hardware.latency import Latency
from spectheory.planning.fitting import Fitting
from spectheory.planning.planner import Plan
from spectheory.planning.planner import plan as make_plan

ENGINES = ", ".join(engine.name for engine in ALL if engine.exporter)
"""The engines of this package that take plans."""


def plan(
    acceptance: Annotated[
        Path,
        typer.Option(
            "--acceptance",
            help="Acceptance record, from `spectheory trace` or `spectheory import`; - is standard input.",
        ),
    ],
    latency: Annotated[
        Path | None, typer.Option("--latency", help="Latency record, from `spectheory profile`.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="In place of --latency: compute forwards for this GPU.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="With --gpu: a known model, or a config.json or its folder.")
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option("--draft", help="With --gpu as --target; else what engines call it, default as measured."),
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="With --gpu: how many share a forward, default 1.")] = None,
    measured: Annotated[
        Path | None,
        typer.Option("--measured", help="With --gpu: folder of measured records, default those of the package."),
    ] = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="N:M", help="With --gpu: 1:256, or 1,8,64; default 1.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help=f"{ENGINES}; one or more, each with @VERSION if not the newest."),
    ] = None,
    max_budget: Annotated[int, typer.Option(help="Most drafted nodes.")] = 64,
    max_depth: Annotated[int | None, typer.Option(help="Deepest drafted node.")] = None,
    max_fanout: Annotated[int | None, typer.Option(help="Most children of a node.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens in the KV cache, default the middle one measured, with --gpu 1024.")
    ] = None,
    smooth: Annotated[bool, typer.Option("--smooth", help="Make rates antitonic in rank, seconds rising.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File for the plan, with --gpu for the schedule; files of engines go beside it."),
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="With --gpu: file for an HTML page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Choose the tree, the chain, or no speculation that decodes fastest, at one or at each batch size."""
    from spectheory.report.terminal import plan_summary, tree_drawing
    from spectheory.results.comparison import other_models

    if (latency is None) == (gpu is None):
        raise InputError("give either --latency, measured, or --gpu with --target and --draft, to compute forwards")
    limits = {"max_budget": max_budget, "max_depth": max_depth, "max_fanout": max_fanout}
    _check_limits(limits)
    rates = loaded(Acceptance, acceptance)
    rates = rates.smoothed() if smooth else rates
    models = [Path(name, *file) for name in (target, draft) if name for file in ((), ("config.json",))]
    written = Writing(
        [acceptance, latency, *models],
        Output(out, "schedule" if latency is None else "plan"),
        Output(report, PAGE),
        force,
        as_json,
    )
    written.require_free()
    engines = [] if engine is None else [name.strip() for name in engine.split(",")]
    if gpu is not None:
        behind, batches = DEFAULT_CONTEXT if context is None else context, batches_of("1" if batch is None else batch)
        deployment = Deployment(
            gpu, target, draft, 1 if gpus is None else gpus, behind, batches, engines, measured, smooth
        )
        show_schedule(rates, deployment, limits, written)
        return
    for_gpu = {"--target": target, "--gpus": gpus, "--measured": measured, "--batch": batch, "--report": report}
    unused = [name for name, value in for_gpu.items() if value is not None]
    if unused:
        raise InputError(f"{', '.join(unused)} only with --gpu: --latency holds one batch size and context")
    if draft is not None and not engines:
        raise InputError("--draft needs --gpu, or --engine to be told its name")
    seconds = Latency.load(latency)  # type: ignore[arg-type]
    seconds = seconds.smoothed() if smooth else seconds
    if said := other_models(rates.provenance, seconds.provenance):
        warn(f"the rates are of {said[0]}, while the times are of {said[1]}")
    with progress("trees") as tell:
        chosen = make_plan(rates, seconds, context=context, progress=tell, **limits)
    exports = Exports.of(Fitting.of(chosen, draft=draft), engines) if engines else None
    written.require_free(exports)
    notes = [Text(f"assumed: {sentence}") for sentence in chosen.provenance.assumptions]
    if seconds.batch > 1:
        notes.insert(0, Text(f"at batch size {seconds.batch}, the one of {latency}"))
    written.show(chosen, plan_summary(chosen), *notes, tree_drawing(chosen.tree, chosen.reach))
    written.show_exports(exports)


def _check_limits(limits: Mapping[str, int | None]) -> None:
    """Check the limits of a plan under the names of their options."""
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            repair = "" if name == "max_budget" else ", or left out"
            raise InputError(f"--{name.replace('_', '-')} must be at least 1{repair}, got {limit}")


def simulate(
    plan: Annotated[Path, typer.Option("--plan", help="The plan to play.")],
    cycles: Annotated[int, typer.Option(help="Draft-and-verify cycles.")] = 20_000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File for the tally.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Play a plan against a world in which its rates are exactly true."""
    from simulate import run
    from spectheory.report.terminal import comparison_table
    from spectheory.results.comparison import compare as lay

    require_free([plan], Output(out, "tally"), force=force)
    planned = Plan.load(plan)
    tally = run(planned, cycles=cycles, seed=seed)
    show(tally, comparison_table(lay(planned, tally, None)), as_json=as_json, out=out, force=force)
