"""The command `calibrate`. It needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from spectheory.cli.options import ONE_GPU, DeploymentOptions, Force, GpuName, Json, TargetModel
from spectheory.cli.output import console, require_free, show, warn
from spectheory.core.errors import InputError
from spectheory.engines import read_runs
from spectheory.hardware.calibrated_costs import calibrate as calibrated
from spectheory.hardware.runs import Conditions, Run

SPECULATIVE = (
    "BATCH:TOKENS_PER_SECOND:TAU, like 1:242:3.3; tau is the mean number of tokens per cycle, which engines report as "
    "acceptance length"
)
"""The form of the option --speculative."""


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
            "--chain or --tree. Can be repeated.",
        ),
    ] = None,
    chain: Annotated[
        int | None, typer.Option(metavar="K", help="Number of drafted tokens per cycle, if they are a chain.")
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(metavar="NODES:LEVELS", help="Number of drafted tokens and of levels of the verified tree: 60:6."),
    ] = None,
    context: Annotated[
        int,
        typer.Option(
            help="Mean number of tokens in the KV cache of each sequence in --plain, --speculative and --latency-out."
        ),
    ] = 1024,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            help="File of a benchmark: llama-bench, vllm bench serve, or SGLang's bench_serving. Can be repeated."
        ),
    ] = None,
    runs_tau: Annotated[
        float | None,
        typer.Option(help="Tau of the runs in --runs, if the file does not say it. Needs --chain or --tree."),
    ] = None,
    runs_batch: Annotated[
        float | None, typer.Option(help="Batch size of the runs in --runs, if the file does not say it.")
    ] = None,
    input_tokens: Annotated[
        float | None, typer.Option(help="Mean tokens of a prompt in --runs, if the file does not say it.")
    ] = None,
    output_tokens: Annotated[
        float | None, typer.Option(help="Mean tokens of an answer in --runs, if the file does not say it.")
    ] = None,
    machine: DeploymentOptions = ONE_GPU,
    out: Annotated[
        Path | None, typer.Option(help="File for the calibrated costs, for `spectheory schedule --costs`.")
    ] = None,
    latency_out: Annotated[
        Path | None,
        typer.Option(help="File for a latency record at --batch and --context, for `spectheory plan --latency`."),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Batch size of --latency-out.", show_default="1")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Calibrate the costs of an engine on a few measured throughputs of your deployment.

    Two plain throughputs, at batch 1 and at a large batch, and one speculative run are usually enough. What they do not
    determine keeps its shipped value.
    """
    from spectheory.report.calibrated_costs import moved_rows, run_rows

    if batch is not None and latency_out is None:
        raise InputError("--batch is the batch size of --latency-out: give --latency-out too, or leave out --batch")
    shape, files = _shape(chain, tree), runs or []
    require_free(files, out, latency_out, force=force)
    measured = [(text, _numbers("--speculative", text, SPECULATIVE, 3)) for text in speculative or []]
    _require_used(plain, speculative, runs, shape, runs_tau)
    given = [_plain(text, context) for text in plain or []]
    given += [_speculative(text, numbers, context, shape or (1, 1)) for text, numbers in measured]
    nodes, depth = (None, None) if speculative and runs_tau is None else shape or (None, None)
    conditions = Conditions(runs_batch, input_tokens, output_tokens, None, runs_tau, nodes, depth)
    read = [read_runs(file, conditions) for file in files]
    found = calibrated(
        [*given, *(run for one in read for run in one.runs)],
        gpu=gpu,
        target=target,
        draft=draft,
        engine=engine,
        **asdict(machine),
    )
    assumed = (sentence for one in read for sentence in one.assumed)
    found = replace(found, provenance=found.provenance.assuming(*assumed))
    latency = None if latency_out is None else found.latency(1 if batch is None else batch, context)
    notes = [Text(f"assumed: {sentence}") for sentence in found.provenance.assumptions]
    for sentence in (*(f"not used: {line}" for one in read for line in one.ignored), *found.warnings):
        warn(sentence)
    show(found, run_rows(found), moved_rows(found), *notes, as_json=as_json, out=out)
    if latency is not None and latency_out is not None:
        latency.save(latency_out)
        if not as_json:
            console.print(f"wrote {latency_out}", highlight=False)


def _require_used(
    plain: Sequence[str] | None,
    speculative: Sequence[str] | None,
    runs: Sequence[Path] | None,
    shape: tuple[int, int] | None,
    runs_tau: float | None,
) -> None:
    """Check that there is a run, and that --chain, --tree and --runs-tau belong to one."""
    if not plain and not speculative and not runs:
        raise InputError(
            "nothing was measured: give --plain BATCH:TOKENS_PER_SECOND, like 64:6000, --speculative "
            "BATCH:TOKENS_PER_SECOND:TAU, or --runs with the file of a benchmark"
        )
    if runs_tau is not None and not runs:
        raise InputError("--runs-tau is for --runs: give tau as the last number of --speculative")
    if (speculative or runs_tau is not None) and shape is None:
        raise InputError(
            f"{'--speculative' if speculative else '--runs-tau'} needs the drafted shape: give --chain K, or --tree "
            "NODES:LEVELS"
        )
    if shape is not None and not speculative and not runs:
        raise InputError("--chain and --tree are for --speculative or --runs: leave them out, or give one of these")


def _shape(chain: int | None, tree: str | None) -> tuple[int, int] | None:
    """Nodes and levels of the drafted tree; None if neither --chain nor --tree is given."""
    if chain is not None and tree is not None:
        raise InputError("--chain and --tree exclude each other: give the one that was drafted")
    if chain is not None:
        if chain < 1:
            raise InputError(f"--chain must be at least 1, got {chain}: for plain decoding use --plain")
        return chain, chain
    if tree is None:
        return None
    nodes, levels = _numbers("--tree", tree, "NODES:LEVELS, like 60:6", 2)
    if nodes != int(nodes) or levels != int(levels) or not 1 <= levels <= nodes:
        raise InputError(f"--tree must be NODES:LEVELS, like 60:6, with at least one node per level, got {tree!r:.60}")
    return int(nodes), int(levels)


def _plain(text: str, context: int) -> Run:
    batch, rate = _numbers("--plain", text, "BATCH:TOKENS_PER_SECOND, like 64:6000", 2)
    return Run.from_throughput(rate, batch=batch, context=context, source=f"--plain {text}")


def _speculative(text: str, numbers: Sequence[float], context: int, shape: tuple[int, int]) -> Run:
    (batch, rate, tau), (nodes, depth) = numbers, shape
    drafted = {"tokens": nodes + 1, "depth": depth, "tau": tau, "source": f"--speculative {text}"}
    return Run.from_throughput(rate, kind="speculative", batch=batch, context=context, **drafted)


def _numbers(option: str, text: str, form: str, count: int) -> list[float]:
    """The numbers in the value of an option, which are separated by colons."""
    try:
        found = [float(part) for part in text.split(":")]
    except ValueError:
        found = []
    if len(found) != count:
        raise InputError(f"{option} must be {form}; got {text!r:.60}")
    return found
