"""The command `diagnose`: why speculation on a server is as fast as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from spectheory import engines
from spectheory.cli.options import ONE_GPU, DeploymentOptions, Force, Json
from spectheory.cli.output import STANDARD_INPUT, console, require_free, standard_input
from spectheory.core.errors import InputError
from spectheory.engines.cycle_parts import Times
from spectheory.hardware.calibrated_costs import CalibratedCosts
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import Deployment

REPORTS = ", ".join(name for engine in engines.ALL for name in engine.observers)
"""The names of the reports that can be diagnosed."""


def diagnose(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"Kind of the files, one of {REPORTS}.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="A log; or one or two scrapes of /metrics, of which the first is subtracted from the second. - reads "
            "standard input.",
        ),
    ],
    plain: Annotated[
        list[Path] | None,
        typer.Option(
            help="The same kind of file of the same server under the same load without speculation. Repeat it for two "
            "scrapes."
        ),
    ] = None,
    model_label: Annotated[
        str | None,
        typer.Option(help="Value of the label model_name to diagnose.", show_default="every model, each alone"),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="Key or name of the GPU, for computed forward times; needs --target and --draft.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target model: the name of a known model, or the path of its config.json.")
    ] = None,
    draft: Annotated[
        str | None, typer.Option(help="Draft, in the same form, or its kind, such as eagle3, mtp or ngram.")
    ] = None,
    machine: DeploymentOptions = ONE_GPU,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Calibrated costs of the engine, from `spectheory calibrate`.", show_default="costs in the package"
        ),
    ] = None,
    latency: Annotated[
        list[Path] | None,
        typer.Option(
            help="Latency record from `spectheory profile`, instead of --gpu. Repeat it for several batch sizes."
        ),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine whose costs computed times have.", show_default="engine of SOURCE")
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Drafted tokens per cycle, if the files do not say it.")] = None,
    depth: Annotated[int | None, typer.Option(help="Levels of the drafts, if they are trees.")] = None,
    batch: Annotated[
        float | None, typer.Option(help="Sequences that decode together, on average, if the files do not say it.")
    ] = None,
    context: Annotated[int | None, typer.Option(help="Number of tokens in the KV cache of each sequence.")] = None,
    min_trials: Annotated[
        int, typer.Option(min=1, help="Leave out positions of the draft that were reached in fewer cycles than this.")
    ] = 100,
    acceptance: Annotated[
        Path | None,
        typer.Option("--acceptance-out", help="File for the acceptance record, for `spectheory schedule`."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say why speculation on a server is as fast as it is, and what to change.

    Five causes are checked: few drafted tokens are accepted, the draft is slow, verifying several tokens takes longer
    than one (verification is not flat), the batch is too large, and overhead. If the files do not tell whether a cause
    applies, the command says which measurement would tell.
    """
    from spectheory.report.diagnosis import diagnosis_rows, diagnosis_words

    require_free([*files, *(plain or []), *(latency or []), costs], acceptance, force=force)
    given = standard_input() if STANDARD_INPUT in files else ""
    reports = [given if file == STANDARD_INPUT else Path(file) for file in files]
    times = _times(source, gpu, target, draft, machine, costs, latency, engine, context)
    found = engines.diagnose(
        reports,
        source,
        plain=plain,
        times=times,
        model=model_label,
        nodes=nodes,
        depth=depth,
        batch=batch,
        context=None if gpu is not None else context,
        min_trials=min_trials,
    )
    if acceptance is not None:
        _save_rates(reports, source, model_label, min_trials, acceptance)
    if as_json:
        print(json.dumps([each.to_dict() for each in found], indent=1))
        return
    for each in found:
        console.print(each.summary, highlight=False, soft_wrap=True)
        if each.factors:
            console.print(diagnosis_rows(each))
        for line in diagnosis_words(each):
            console.print(line, highlight=False, soft_wrap=True)
    if acceptance is not None:
        console.print(f"wrote {acceptance}", highlight=False, soft_wrap=True)


def _times(
    source: str,
    gpu: str | None,
    target: str | None,
    draft: str | None,
    machine: DeploymentOptions,
    costs: Path | None,
    records: Sequence[Path] | None,
    engine: str | None,
    context: int | None,
) -> Times | None:
    """The forward times that the options name, or None."""
    named = {"--gpu": gpu, "--target": target, "--draft": draft}
    missing = [name for name, value in named.items() if value is None]
    if len(missing) == len(named):
        if costs is not None or engine is not None or machine != ONE_GPU:
            raise InputError("--costs, --engine and the options of the GPUs need --gpu, --target and --draft")
        return None if not records else [Latency.load(path) for path in records]
    if records:
        raise InputError("--latency must be left out with --gpu, --target and --draft: give one or the other")
    if gpu is None or target is None or draft is None:
        raise InputError(f"{', '.join(missing)} must be given too, or none of {', '.join(named)}")
    calibrated = None if costs is None else CalibratedCosts.load(costs)
    return Deployment(
        gpu,
        target,
        draft,
        context=context,
        engine=engine or (engines.timed_engine(source) if calibrated is None else None),
        **asdict(machine),
        costs=calibrated,
    )


def _save_rates(reports: Sequence[str | Path], source: str, model: str | None, min_trials: int, out: Path) -> None:
    """Save the acceptance rates of the one model that was diagnosed."""
    seen = engines.observed_in(reports, source, model=model, min_trials=min_trials)
    if len(seen) > 1:
        names = ", ".join(each.model for each in seen)
        raise InputError(f"--acceptance-out needs one model, but {names} were served: choose one with --model-label")
    rates = seen[0].statistics and seen[0].statistics.acceptance
    if rates is None:
        raise InputError(f"{source} has no acceptance rates by position here: leave out --acceptance-out")
    rates.save(out)
