"""The commands `plan` and `schedule`. They need no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from spectheory.cli.exporting import Exports, engines_of
from spectheory.cli.options import (
    ONE_GPU,
    UNLIMITED,
    DeploymentOptions,
    Force,
    GpuName,
    Json,
    LimitOptions,
    RatesFile,
    Smooth,
    TargetModel,
    rates_of,
)
from spectheory.cli.output import progress, require_free, show, warn
from spectheory.cli.tree_files import tree_file
from spectheory.core.acceptance import Acceptance
from spectheory.core.errors import InputError
from spectheory.engines import ALL
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.engine_costs import DEFAULT_ENGINE
from spectheory.hardware.hf_config import LARGEST
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import DEFAULT_CONTEXT, Deployment
from spectheory.planning.fitting import Fitting
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.schedule_record import Schedule
from spectheory.replay import Replays
from spectheory.verify import verifier_of

ENGINES = ", ".join(engine.name for engine in ALL if engine.exporter)
"""The names of the engines to which this package can export plans."""
_WRITTEN = (
    f"Engines to write settings for, comma-separated: {ENGINES}. The default is the newest known version; for another "
    "version, write ENGINE@VERSION."
)
EngineNames = Annotated[str | None, typer.Option("--engine", help=_WRITTEN)]
TimedEngineNames = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help=f"{_WRITTEN} Computed times use the costs of the first engine.",
        show_default=f"no settings, costs of {DEFAULT_ENGINE}",
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
    verifier: Annotated[
        str | None,
        typer.Option(help="Verifier of the --tree, such as Traversal; needs --trace.", show_default="the fastest"),
    ] = None,
    engine: EngineNames = None,
    draft: Annotated[
        str | None,
        typer.Option(
            help="Draft model to name in the engine settings: a name or a folder.", show_default="the measured draft"
        ),
    ] = None,
    limits: LimitOptions = UNLIMITED,
    context: Annotated[
        int | None,
        typer.Option(help="Number of tokens in the KV cache.", show_default="middle of the measured contexts"),
    ] = None,
    smooth: Smooth = False,
    out: Annotated[
        Path | None, typer.Option(help="File for the plan. Files for engines are written to its folder.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Choose what decodes fastest on the measured machine: a draft tree, a draft chain, or no speculation.

    For a GPU that you have not measured, or for other batch sizes, use `spectheory schedule`.
    """
    from spectheory.report.terminal import plan_summary, tree_drawing
    from spectheory.results.comparison import differing_models

    bounds, engines = limits.checked(), engines_of(engine)
    if draft is not None and not engines:
        raise InputError("--draft is used only in engine settings: give --engine too, or leave out --draft")
    files = [acceptance, latency, tree], out
    require_free(*files, force=force)
    rates, seconds = rates_of(acceptance), Latency.load(latency)
    if smooth:
        rates, seconds = rates.smoothed(), seconds.smoothed()
    if said := differing_models(rates.provenance, seconds.provenance):
        warn(f"the rates are for {said[0]}, while the times are for {said[1]}")
    if verifier is not None and (tree is None or trace is None):
        raise InputError("--verifier needs --tree and --trace: without --tree the fastest verifier is chosen")
    given = None if tree is None else tree_file(tree).tree
    if verifier is not None:
        verifier_of(verifier)
    texts = None if trace is None else _replays(trace, rates)
    if given is None:
        with progress("trees") as tell:
            chosen = search(rates, seconds, context=context, replays=texts, progress=tell, **bounds)
    else:
        terms = {"context": context, "replays": texts, "verifier": verifier}
        chosen = evaluate(given, rates, seconds, **terms)
    exports = Exports.of(Fitting.of(chosen, draft=draft), engines, out)
    require_free(*files, *exports.files, force=force)
    notes = _notes(chosen)
    if seconds.batch > 1:
        notes.insert(0, Text(f"at batch size {seconds.batch}, the batch size of {latency}"))
    shown = plan_summary(chosen), *notes, tree_drawing(chosen.tree, chosen.reach, chosen.reach_source)
    show(chosen, *shown, as_json=as_json, out=out)
    exports.write(aside=as_json)


def _notes(chosen: Schedule) -> list[Text]:
    from spectheory.report.terminal import confidence_lines

    assumed = [Text(f"assumed: {sentence}") for sentence in chosen.provenance.assumptions]
    classes = chosen.rates.classes
    contexts = [] if classes is None else [Text(f"contexts: {classes.summary}")]
    return [*confidence_lines(chosen.confidence), *assumed, *contexts]


def _replays(folder: Path, rates: Acceptance) -> Replays:
    """The texts of a trace, whose sampling the rates must share."""
    from reference.replaying import traced_replays

    return traced_replays(folder, rates)[0]


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
    machine: DeploymentOptions = ONE_GPU,
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
    engine: TimedEngineNames = None,
    limits: LimitOptions = UNLIMITED,
    context: Annotated[
        int | None,
        typer.Option(
            help="Number of tokens in the KV cache of each sequence.",
            show_default=f"mean by the lengths, otherwise {DEFAULT_CONTEXT}",
        ),
    ] = None,
    prompt_tokens: Annotated[
        float | None,
        typer.Option(help="Mean number of tokens of a prompt, with --output-tokens: steps then process prompts too."),
    ] = None,
    output_tokens: Annotated[
        float | None, typer.Option(help="Mean number of tokens of an answer, with --prompt-tokens.")
    ] = None,
    smooth: Smooth = False,
    out: Annotated[
        Path | None, typer.Option(help="File for the schedule. Files for engines are written to its folder.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="File for a report as an HTML page.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Choose what decodes fastest at each batch size on a GPU: a draft tree, a draft chain, or no speculation.

    Forward times come from measured records of the GPU and the models, if there are any. Otherwise they are computed.
    """
    from spectheory.report.schedules import named_ranges, schedule_page, schedule_rows
    from spectheory.report.terminal import tree_drawing

    bounds, batches, engines = limits.checked(), batches_of(batch), engines_of(engine)
    models = [Path(name, *file) for name in (target, draft) for file in ((), ("config.json",))]
    files = [acceptance, costs, *models], out, report
    require_free(*files, force=force)
    rates = rates_of(acceptance)
    texts = None if trace is None else _replays(trace, rates)
    rates = rates.smoothed() if smooth else rates
    calibrated = None if costs is None else CalibratedCosts.load(costs)
    place = Deployment(
        gpu,
        target,
        draft,
        context=context,
        measured=measured,
        smooth=smooth,
        engine=engines[0] if engines else None,
        **asdict(machine),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        costs=calibrated,
    )
    with progress("trees") as tell:
        planned = place.schedule(rates, batches, replays=texts, progress=tell, **bounds)
    exports = Exports.of(Fitting.of(planned, draft=place.draft_name, target=place.target_config), engines, out)
    require_free(*files, *exports.files, force=force)
    title = f"{target} with {place.draft_name} on {machine.gpus} x {gpu}"
    pages = {} if report is None else {report: schedule_page(title, planned)}
    (sizes, tree), *_ = named_ranges(planned)
    drawn = tree_drawing(tree, planned.reach, planned.reach_source)
    notes = *_notes(planned), *([Text(f"at batch {sizes}:"), drawn] if tree.budget else [])
    show(planned, schedule_rows(planned), *notes, as_json=as_json, out=out, pages=pages)
    exports.write(aside=as_json)


def batches_of(text: str) -> Sequence[int]:
    """The batch sizes in `text`: `1:256` is every size from 1 to 256, `1,8,64` is a list."""
    try:
        ends = [int(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        ends = []
    if not ends or (":" in text and len(ends) != 2):
        raise InputError(f"--batch must be like 1:256 or 1,8,64, got {text!r:.80}")
    rises = all(a < b for a, b in pairwise(ends)) or (":" in text and ends[0] == ends[1])
    if not rises or ends[0] < 1 or ends[-1] > LARGEST:
        raise InputError(
            f"--batch must name increasing sizes from 1 to {LARGEST:,}, like 1:256 or 1,8,64, got {text!r:.80}"
        )
    return range(ends[0], ends[1] + 1) if ":" in text else ends
