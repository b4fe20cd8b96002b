"""The command `diagnose`: what speculation does on a server, beside what forward times predict."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from spectheory import engines
from spectheory.cli.importing import ReportFiles, reports_of
from spectheory.cli.options import Json
from spectheory.cli.output import console
from spectheory.core.errors import InputError
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import Deployment

if TYPE_CHECKING:
    from spectheory.report.tables import TextTable

REPORTS = ", ".join(name for engine in engines.ALL for name, reader in engine.readers.items() if reader.observe)
"""The names of the reports that can be diagnosed."""


def diagnose(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"Kind of the files, one of {REPORTS}.")],
    files: ReportFiles,
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
        str | None, typer.Option(help="Key or name of the GPU, for computed times; needs --target and --draft.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target model, as in `spectheory schedule`; a format follows: llama-3.1-8b-fp8.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="Draft, as in `spectheory schedule`.")] = None,
    latency: Annotated[
        list[Path] | None,
        typer.Option(
            help="Latency record, from `spectheory profile` or `calibrate --latency-out`, instead of --gpu. Repeat it "
            "for several batch sizes."
        ),
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(
            metavar="NODES:LEVELS", help="Drafted tokens per cycle and their levels, if the files do not say it: 60:6."
        ),
    ] = None,
    batch: Annotated[
        float | None, typer.Option(help="Sequences that decode together, on average, if the files do not say it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the seconds of a server's cycle, its tau and its acceptance rates, beside what is predicted.

    With forward times, from --gpu or --latency, it also says how many drafted tokens would be fastest.
    """
    named = (gpu, target, draft)
    if any(named) and (latency or not all(named)):
        raise InputError("give --gpu, --target and --draft together, or --latency instead of all three")
    times = None if not latency else [Latency.load(path) for path in latency]
    if gpu and target and draft:
        times = Deployment(gpu, target, draft, engine=engines.timed_engine(source))
    nodes, depth = (None, None) if tree is None else _shape(tree)
    found = engines.diagnose(
        reports_of(files), source, plain=plain, times=times, model=model_label, nodes=nodes, depth=depth, batch=batch
    )
    if as_json:
        print(json.dumps([asdict(each) | {"speedup": each.speedup} for each in found], indent=1))
        return
    for each in found:
        for line in (_summary(each), *_rates(each), _seconds(each), *_best(each), *(f"note: {n}" for n in each.notes)):
            console.print(Text(line) if isinstance(line, str) else line, soft_wrap=True)


def _shape(tree: str) -> tuple[int, int]:
    try:
        nodes, levels = map(int, tree.split(":"))
    except ValueError:
        raise InputError(f"--tree must be NODES:LEVELS, like 60:6, got {tree!r:.60}") from None
    return nodes, levels


def _summary(found: engines.Diagnosis) -> str:
    """One line: tau, the drafts, the batch and the speedup."""
    said = [f"tau {found.tau:.2f}"]
    said += [f"{found.nodes:.3g} drafted tokens a cycle"] if found.nodes is not None else []
    said += [f"{found.batch:.3g} sequences"] if found.batch is not None else []
    measured = "observed" if found.plain_seconds else "predicted"
    said += [] if found.speedup is None else [f"{found.speedup:.2f}x of {measured} plain decoding"]
    return f"{found.engine} {found.model}".strip() + f": {', '.join(said)}"


def _rates(found: engines.Diagnosis) -> list[str]:
    rates = ", ".join(f"{rate:.2f}" for rate in found.rates)
    return [f"acceptance rates by position: {rates}"] if rates else []


def _seconds(found: engines.Diagnosis) -> TextTable:
    """The seconds of a cycle by its parts, as observed and as predicted."""
    from spectheory.report.tables import MISSING, TextTable

    predicted = {} if found.predicted is None else asdict(found.predicted)
    predicted |= {} if found.predicted is None else {"cycle_seconds": found.predicted.cycle_seconds}
    rows = []
    for name in ("draft", "verification", "overhead", "prompt", "cycle", "plain"):
        both = getattr(found, f"{name}_seconds", None), predicted.get(f"{name}_seconds")
        rows.append((name, *(MISSING if seconds is None else f"{1e3 * seconds:.2f}" for seconds in both)))
    return TextTable("Milliseconds of a cycle and of a plain step", ("part", "observed", "predicted"), tuple(rows))


def _best(found: engines.Diagnosis) -> list[str]:
    if found.best_length is None:
        return []
    what = f"a chain of {found.best_length}" if found.best_length else "no speculation"
    return [f"fastest by these rates and predicted times, {found.best_speedup:.2f}x as fast as now: {what}"]
