"""The command `calibrate`. It needs no model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from spectheory.cli.options import Force, GpuName, Gpus, Json, TargetModel, shape_in
from spectheory.cli.output import require_free, show, warn
from spectheory.core.errors import InputError
from spectheory.engines import read_runs
from spectheory.hardware.calibrated_costs import calibrate as calibrated
from spectheory.hardware.latency import DEFAULT_CONTEXT
from spectheory.hardware.runs import Conditions, Run
from spectheory.planning.deployment import Deployment


def calibrate(
    gpu: GpuName,
    target: TargetModel,
    draft: Annotated[
        str | None,
        typer.Option(
            help="Draft of the speculative runs: a model or a head in the same form as --target, a kind such as eagle3 "
            "or mtp, or ngram if drafts are looked up."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engine that was measured, such as sglang; ENGINE@VERSION for one of its versions.",
            show_default="as in --runs, otherwise vllm",
        ),
    ] = None,
    plain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BATCH:TOKENS_PER_SECOND",
            help="Measured throughput without speculation, of all sequences together: 64:6000. Can be repeated.",
        ),
    ] = None,
    speculative: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BATCH:TOKENS_PER_SECOND:TAU",
            help="Measured throughput with speculation, and tau, the mean number of tokens per cycle: 1:242:3.3. Needs "
            "--drafted. Can be repeated.",
        ),
    ] = None,
    drafted: Annotated[
        str | None,
        typer.Option(
            metavar="K or NODES:LEVELS",
            help="What was drafted per cycle: the length of a chain, 5, or the nodes and levels of a tree, 60:6.",
        ),
    ] = None,
    context: Annotated[
        int, typer.Option(help="Mean number of tokens in the KV cache of each sequence in --plain and --speculative.")
    ] = DEFAULT_CONTEXT,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            help="File of a benchmark: llama-bench, vllm bench serve or SGLang's bench_serving. Can be repeated."
        ),
    ] = None,
    runs_tau: Annotated[
        float | None, typer.Option(help="Tau of the runs in --runs, if the file does not say it. Needs --drafted.")
    ] = None,
    gpus: Gpus = Deployment.gpus,
    out: Annotated[
        Path | None, typer.Option(help="File for the calibrated costs, for `spectheory schedule --costs`.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Calibrate the costs of an engine on a few measured throughputs of your deployment.

    Two plain throughputs, at batch 1 and at a large batch, and one speculative run are usually enough. What they do not
    determine keeps its shipped value.
    """
    from spectheory.report.tables import moved_rows, run_rows

    files = runs or []
    require_free(files, out, force=force)
    if not plain and not speculative and not files:
        raise InputError(
            "nothing was measured: give --plain BATCH:TOKENS_PER_SECOND, like 64:6000, --speculative "
            "BATCH:TOKENS_PER_SECOND:TAU, or --runs with the file of a benchmark"
        )
    if (speculative or runs_tau is not None) and drafted is None:
        raise InputError("--speculative and --runs-tau need the drafted shape: give --drafted K, or NODES:LEVELS")
    nodes, levels = (None, None) if drafted is None else shape_in("--drafted", drafted)
    given = []
    for option, texts, form in (("plain", plain, "64:6000"), ("speculative", speculative, "1:242:3.3")):
        for text in texts or []:
            batch, rate, *tau = _numbers(f"--{option}", text, form)
            shape: dict[str, Any] = {}
            if tau and nodes and levels:
                shape = {"tokens": nodes + 1, "depth": levels, "tau": tau[0]}
            said = f"--{option} {text}"
            given.append(Run.from_throughput(rate, kind=option, batch=batch, context=context, source=said, **shape))
    shaped = (nodes, levels) if runs_tau is not None or not speculative else (None, None)
    read = [read_runs(file, Conditions(runs_tau, *shaped)) for file in files]
    measured = [*given, *(run for one in read for run in one.runs)]
    found = calibrated(measured, gpu=gpu, target=target, draft=draft, engine=engine, gpus=gpus)
    found = replace(found, provenance=found.provenance.assuming(*(said for one in read for said in one.assumed)))
    for sentence in (*(f"not used: {line}" for one in read for line in one.ignored), *found.warnings):
        warn(sentence)
    notes = [Text(f"assumed: {sentence}") for sentence in found.provenance.assumptions]
    show(found, run_rows(found), moved_rows(found), *notes, as_json=as_json, out=out)


def _numbers(option: str, text: str, form: str) -> list[float]:
    """The numbers in the value of an option, which are separated by colons, as many as in `form`."""
    try:
        found = [float(part) for part in text.split(":")]
    except ValueError:
        found = []
    if len(found) != form.count(":") + 1:
        names = ":".join(("BATCH", "TOKENS_PER_SECOND", "TAU")[: form.count(":") + 1])
        raise InputError(f"{option} must be {names}, like {form}; got {text!r:.60}")
    return found
