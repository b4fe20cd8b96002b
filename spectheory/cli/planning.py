"""The commands `plan` and `schedule`. They need no model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from spectheory.cli.exporting import Exports, engines_of
from spectheory.cli.options import (
    Force,
    GpuName,
    Gpus,
    Json,
    Quant,
    RatesFile,
    Smooth,
    TargetModel,
    numbers,
    rates_of,
    tree_in,
)
from spectheory.cli.output import progress, require_free, show
from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.engines import ALL
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.hf_config import LARGEST
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import DEFAULT_CONTEXT, Deployment
from spectheory.planning.fitting import Fitting
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.schedule_record import Schedule
from spectheory.replay import Replays

ENGINES = ", ".join(engine.name for engine in ALL if engine.exporter)
"""The names of the engines to which this package can export plans."""
EngineNames = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help=f"Engines to write settings for, comma-separated: {ENGINES}. The default is the newest known version; for "
        "another version, write ENGINE@VERSION. Computed times use the costs of the first engine.",
        show_default="no settings",
    ),
]
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
OutFile = Annotated[
    Path | None, typer.Option("--out", help="File for the result. Files for engines are written to its folder.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Print what the columns mean, what is assumed, and a drawing of the tree too.")
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
    engine: EngineNames = None,
    max_budget: MaxBudget = 64,
    max_depth: MaxDepth = None,
    context: Annotated[
        int | None,
        typer.Option(help="Number of tokens in the KV cache.", show_default="middle of the measured contexts"),
    ] = None,
    smooth: Smooth = False,
    out: OutFile = None,
    verbose: Verbose = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Choose what decodes fastest on the measured machine: a draft tree, a draft chain, or no speculation.

    For a GPU that you have not measured, or for other batch sizes, use `spectheory schedule`.
    """
    from spectheory.report.terminal import plan_summary

    engines, files = engines_of(engine), ([acceptance, latency, tree], out)
    require_free(*files, force=force)
    rates, seconds = rates_of(acceptance), Latency.load(latency)
    if smooth:
        rates, seconds = rates.smoothed(), seconds.smoothed()
    given, texts = None if tree is None else tree_in(tree), _replays(trace, rates)
    if given is not None:
        chosen = evaluate(given, rates, seconds, context=context, replays=texts)
    else:
        with progress("trees") as tell:
            limits = {"max_budget": max_budget, "max_depth": max_depth, "context": context}
            chosen = search(rates, seconds, replays=texts, progress=tell, **limits)
    exports = Exports.of(Fitting.of(chosen), engines, out)
    require_free(*files, *exports.files, force=force)
    exports.write(aside=as_json)
    show(chosen, plan_summary(chosen), *_notes(chosen, verbose=verbose), as_json=as_json, out=out)
    exports.require_all()


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
    gpus: Gpus = 1,
    quant: Quant = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            help="Folder of measured latency records, with files GPU/TARGET/DRAFT/batch-N.json.",
            show_default="records in the package",
        ),
    ] = None,
    batch: Annotated[
        str,
        typer.Option(
            metavar="N:M", help="Batch sizes to plan: 1:256 for every size from 1 to 256, or a list such as 1,8,64."
        ),
    ] = "1",
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Calibrated costs of the engine, from `spectheory calibrate`, for computed times.",
            show_default="costs in the package",
        ),
    ] = None,
    trace: TraceFolder = None,
    engine: EngineNames = None,
    max_budget: MaxBudget = 64,
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
    out: OutFile = None,
    report: Annotated[Path | None, typer.Option(help="File for a report as an HTML page.")] = None,
    verbose: Verbose = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Choose what decodes fastest at each batch size on a GPU: a draft tree, a draft chain, or no speculation.

    Forward times come from measured records of the GPU and the models, if there are any. Otherwise they are computed.
    """
    from spectheory.report.schedules import schedule_page, schedule_rows

    batches, engines = batches_of(batch), engines_of(engine)
    models = [Path(name, *file) for name in (target, draft) for file in ((), ("config.json",))]
    files = [acceptance, costs, *models], out, report
    require_free(*files, force=force)
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
    texts = _replays(trace, rates)
    with progress("trees") as tell:
        planned = place.schedule(
            rates, batches, max_budget=max_budget, max_depth=max_depth, replays=texts, progress=tell
        )
    exports = Exports.of(Fitting.of(planned, draft=place.draft_name, target=place.target_config), engines, out)
    require_free(*files, *exports.files, force=force)
    exports.write(aside=as_json)
    pages = {report: schedule_page(f"{target} with {place.draft_name} on {gpus} x {gpu}", planned)} if report else {}
    rows = schedule_rows(planned, explained=verbose)
    show(planned, rows, *_notes(planned, verbose=verbose), as_json=as_json, out=out, pages=pages)
    exports.require_all()


def _replays(folder: Path | None, rates: Acceptance) -> Replays | None:
    """The texts of a trace, whose sampling the rates must share."""
    if folder is None:
        return None
    from reference.tracing import replays

    return replays(folder, rates=rates)


def _notes(planned: Schedule, *, verbose: bool) -> list[RenderableType]:
    """One line on the error of the prediction; the rest of what is known about it if it is `verbose`."""
    from spectheory.report.terminal import tree_drawing

    error, *more = [*planned.error_lines, *(f"assumed: {sentence}" for sentence in planned.provenance.assumptions)]
    if not verbose:
        return [Text(f"{error} (more with --verbose)" if more else error)]
    if (classes := planned.rates.classes) is not None:
        more.append(f"contexts: {classes.summary}")
    drawn = [Text(f"at batch {planned.batches[0]}:"), tree_drawing(planned.tree, planned.reach, planned.reach_source)]
    return [*map(Text, (error, *more)), *(drawn if planned.tree.budget else [])]


def batches_of(text: str) -> Sequence[int]:
    """The batch sizes in `text`: `1:256` is every size from 1 to 256, `1,8,64` is a list."""
    try:
        ends = [int(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        ends = []
    rises = all(a < b for a, b in pairwise(ends)) or (":" in text and ends[0] == ends[-1])
    if not ends or (":" in text and len(ends) != 2) or not rises or ends[0] < 1 or ends[-1] > LARGEST:
        raise InputError(
            f"--batch must name increasing sizes from 1 to {LARGEST:,}, like 1:256 or 1,8,64, got {text!r:.80}"
        )
    return range(ends[0], ends[1] + 1) if ":" in text else ends
