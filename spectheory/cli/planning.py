"""The commands `plan` and `schedule`. They need no model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from spectheory.cli.exporting import PLAN_OUTPUT, PlanOutput
from spectheory.cli.options import GpuName, Gpus, Quant, RatesFile, Smooth, TargetModel, numbers, rates_of, tree_in
from spectheory.cli.output import progress
from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.latency import Latency
from spectheory.planning.candidates import MAX_BUDGET
from spectheory.planning.deployment import DEFAULT_CONTEXT, Deployment
from spectheory.planning.fitting import Fitting
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.replay import Replays

TraceFolder = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="Folder of a trace, from `spectheory trace`. Tree and verifier are then chosen together, by replaying "
        "them on its texts. Above temperature 0 the traced models are run once over each text.",
    ),
]
MaxBudget = Annotated[int, typer.Option("--max-budget", min=1, help="Maximum number of drafted tokens per tree.")]
MaxDepth = Annotated[
    int | None, typer.Option("--max-depth", min=1, help="Maximum depth of a draft tree.", show_default="no limit")
]


def plan(
    acceptance: RatesFile,
    latency: Annotated[Path, typer.Option(help="Latency record, from `spectheory profile`.")],
    tree: Annotated[
        Path | None,
        typer.Option(
            help="Predict the speed of this tree and skip the search. Takes a plan file, or a JSON file with a parent "
            "array such as [-1, 0, 0]."
        ),
    ] = None,
    trace: TraceFolder = None,
    max_budget: MaxBudget = MAX_BUDGET,
    max_depth: MaxDepth = None,
    context: Annotated[
        int | None,
        typer.Option(help="Number of tokens in the KV cache.", show_default="middle of the measured contexts"),
    ] = None,
    smooth: Smooth = False,
    output: PlanOutput = PLAN_OUTPUT,
) -> None:
    """Choose what decodes fastest on the measured machine: a draft tree, a draft chain, or no speculation.

    For a GPU that you have not measured, or for other batch sizes, use `spectheory schedule`.
    """
    from spectheory.report.terminal import plan_summary

    output.engines()
    read = [acceptance, latency, tree]
    output.require_free(read)
    rates, seconds = rates_of(acceptance), Latency.load(latency)
    if smooth:
        rates, seconds = rates.smoothed(), seconds.smoothed()
    texts = _replays(trace, rates)
    if tree is not None:
        chosen = evaluate(tree_in(tree), rates, seconds, context=context, replays=texts)
    else:
        with progress("trees") as tell:
            limits = {"max_budget": max_budget, "max_depth": max_depth, "context": context}
            chosen = search(rates, seconds, replays=texts, progress=tell, **limits)
    output.write(Fitting.of(chosen), plan_summary(chosen), read)


def schedule(
    acceptance: RatesFile,
    gpu: GpuName,
    target: TargetModel,
    draft: Annotated[
        str,
        typer.Option(
            help="Draft, in the same form as --target; or the kind of a draft for the target: eagle1, eagle3, mtp (the "
            "module in the target's config), medusa, p-eagle, dflash, dspark, pard; or ngram, suffix, which look up "
            "drafts. Engine settings will contain its name."
        ),
    ],
    gpus: Gpus = Deployment.gpus,
    quant: Quant = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            help="Folder of measured latency records, with files GPU/TARGET/DRAFT/batch-N.json.",
            show_default="none, all times are computed",
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            metavar="N:M",
            help="Batch sizes to plan: 1:256 for every size from 1 to 256, or a list such as 1,8,64.",
            show_default="1",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Calibrated costs of the engine, from `spectheory calibrate`, for computed times.",
            show_default="costs in the package",
        ),
    ] = None,
    trace: TraceFolder = None,
    max_budget: MaxBudget = MAX_BUDGET,
    max_depth: MaxDepth = None,
    context: Annotated[
        int | None,
        typer.Option(
            help="Number of tokens in the KV cache of each sequence.",
            show_default=f"mean by the lengths, otherwise {DEFAULT_CONTEXT}",
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT,ANSWER",
            help="Mean numbers of tokens of a prompt and of an answer, such as 512,256: steps then read prompts too.",
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="File for a report as an HTML page.")] = None,
    output: PlanOutput = PLAN_OUTPUT,
) -> None:
    """Choose what decodes fastest at each batch size on a GPU: a draft tree, a draft chain, or no speculation.

    Forward times come from measured records of the GPU and the models, if there are any. Otherwise they are computed.
    """
    from spectheory.report.schedules import schedule_page, schedule_rows

    sizes: dict[str, Any] = {} if batch is None else {"batches": batches_of(batch)}
    engines = output.engines()
    read = [acceptance, costs, *(Path(name, *file) for name in (target, draft) for file in ((), ("config.json",)))]
    output.require_free(read, report)
    rates = rates_of(acceptance)
    prompt, answer, *_ = [None, None] if lengths is None else [*numbers("--lengths", lengths, float), None]
    place = Deployment(
        gpu,
        target,
        draft,
        gpus,
        context,
        measured,
        quant=quant,
        engine=engines[0] if engines else None,
        prompt_tokens=prompt,
        output_tokens=answer,
        costs=None if costs is None else CalibratedCosts.load(costs),
    )
    limits = {"max_budget": max_budget, "max_depth": max_depth, "replays": _replays(trace, rates)}
    with progress("trees") as tell:
        planned = place.schedule(rates, **sizes, **limits, progress=tell)
    fitting = Fitting.of(planned, draft=place.draft_name, target=place.target_config)
    pages = {report: schedule_page(f"{target} with {place.draft_name} on {gpus} x {gpu}", planned)} if report else {}
    output.write(fitting, schedule_rows(planned, explained=output.verbose), read, pages)


def _replays(folder: Path | None, rates: Acceptance) -> Replays | None:
    """The texts of a trace, whose sampling the rates must share."""
    if folder is None:
        return None
    from reference.tracing import replays

    return replays(folder, rates=rates)


def batches_of(text: str) -> Sequence[int]:
    """The batch sizes in `text`: `1:256` is every size from 1 to 256, `1,8,64` is a list."""
    if not re.fullmatch(r"\d{1,9}(:\d{1,9}|(,\d{1,9})*)", text):
        raise InputError(f"--batch must name sizes like 1:256 or 1,8,64, got {text!r:.80}")
    ends = [int(part) for part in re.split("[:,]", text)]
    return range(ends[0], ends[1] + 1) if ":" in text else ends
