"""The command `diagnose`: what speculation does on a server, beside what forward times predict."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
        typer.Option(help="The same without speculation, under the same load. Repeat it for two scrapes."),
    ] = None,
    model_label: Annotated[
        str | None, typer.Option(help="Value of the label model_name to diagnose.", show_default="every model")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="Key or name of the GPU, for computed times; needs --target and --draft.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target, as in `spectheory schedule`; a format follows: llama-3.1-8b-fp8.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="Draft, as in `spectheory schedule`.")] = None,
    latency: Annotated[
        list[Path] | None,
        typer.Option(
            help="Latency record, from `profile` or `calibrate --latency-out`, instead of --gpu. Can be repeated."
        ),
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(metavar="NODES:LEVELS", help="Drafted tokens and levels, if the files do not say it: 60:6."),
    ] = None,
    batch: Annotated[
        float | None, typer.Option(min=1, help="Mean number of sequences that decode, if the files do not say it.")
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
    numbers = [] if tree is None else tree.split(":")
    if tree is not None and (len(numbers) != 2 or not all(number.isdecimal() for number in numbers)):
        raise InputError(f"--tree must be NODES:LEVELS, like 60:6, got {tree!r:.60}")
    shape = None if tree is None else (int(numbers[0]), int(numbers[1]))
    given = {"plain": plain, "times": times, "model": model_label, "shape": shape, "batch": batch}
    found = engines.diagnose(reports_of(files), source, **given)
    if as_json:
        print(json.dumps([asdict(each) | {"speedup": each.speedup} for each in found], indent=1))
        return
    for each in found:
        for line in _shown(each):
            console.print(Text(line) if isinstance(line, str) else line, soft_wrap=True)


def _shown(found: engines.Diagnosis) -> Iterator[str | TextTable]:
    from spectheory.report.tables import MISSING, TextTable

    said = [f"tau {found.tau:.2f}"]
    said += [f"{found.nodes:.3g} drafted tokens a cycle"] if found.nodes is not None else []
    said += [f"{found.batch:.3g} sequences"] if found.batch is not None else []
    measured = "observed" if found.observed.plain else "predicted"
    said += [] if found.speedup is None else [f"{found.speedup:.2f}x of {measured} plain decoding"]
    yield f"{found.engine} {found.model}".strip() + f": {', '.join(said)}"
    if found.rates:
        yield f"acceptance rates by position: {', '.join(f'{rate:.2f}' for rate in found.rates)}"
    observed, predicted = asdict(found.observed), asdict(found.predicted)
    cells = {name: (observed[name], predicted[name]) for name in observed}
    rows = [(name, *(MISSING if s is None else f"{1e3 * s:.2f}" for s in both)) for name, both in cells.items()]
    yield TextTable("Milliseconds of a cycle and of a plain step", ("part", "observed", "predicted"), tuple(rows))
    if found.best_length is not None:
        what = f"a chain of {found.best_length}" if found.best_length else "no speculation"
        yield f"fastest by these rates and predicted times, {found.best_speedup:.2f}x as fast as now: {what}"
    yield from (f"note: {note}" for note in found.notes)
