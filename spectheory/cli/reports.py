"""The commands `import`, `guard` and `diagnose`, which read the reports of an engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from spectheory import engines
from spectheory.cli.options import Explain, Force, Gpus, Json, shape_in
from spectheory.cli.output import STANDARD_INPUT, console, require_free, standard_input
from spectheory.core.acceptance import MIN_TRIALS
from spectheory.core.errors import InputError
from spectheory.hardware.latency import Latency
from spectheory.planning.deployment import Deployment

REPORTS = ", ".join(name for engine in engines.ALL for name in engine.readers)
"""The names of the reports of the engines of this package."""
Source = Annotated[str, typer.Argument(metavar="SOURCE", help=f"Kind of the reports, one of {REPORTS}.")]
ReportFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Files of reports: logs and responses are read as one; of two scrapes of /metrics, the first is "
        "subtracted. Several replicas: all first scrapes, then all second ones. - reads standard input.",
    ),
]
Add = Annotated[
    bool,
    typer.Option(
        "--add",
        help="Add files that do not say that one server with one model and drafter wrote them, and lines given twice.",
    ),
]
_NOW = "The same of a later run with the same prompts, in the same order. Default: say how many prompts are needed."


def _reports(files: Sequence[str]) -> list[str | Path]:
    given = standard_input() if STANDARD_INPUT in files else ""
    return [given if file == STANDARD_INPUT else Path(file) for file in files]


def import_(
    source: Source,
    files: ReportFiles,
    out: Annotated[Path | None, typer.Option(help="File for the acceptance record.")] = None,
    min_trials: Annotated[
        int, typer.Option(min=1, help="Leave out depths that were reached in fewer cycles than this.")
    ] = MIN_TRIALS,
    assume_constant: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LENGTH",
            help="If the report has only totals: assume chains of LENGTH drafted tokens, and one rate for all of them.",
        ),
    ] = None,
    add: Add = False,
    force: Force = False,
) -> None:
    """Read acceptance rates from what an engine reports: its metrics, log or responses."""
    from spectheory.report.tables import acceptance_rows

    require_free(files, out, force=force)
    found = engines.read_report(
        _reports(files), source, min_trials=min_trials, assume_constant=assume_constant, add=add
    )
    if out is not None:
        if found.acceptance is None:
            raise InputError(f"{source} has no rates by position here: leave out --out, or give --assume-constant")
        found.acceptance.save(out)
    if found.acceptance is not None:
        console.print(acceptance_rows(found.acceptance))
    counts = {"cycles": found.drafts, "tokens drafted": found.drafted, "accepted": found.accepted}
    known = [] if found.tau is None else [f"tau {found.tau:.3f}"]
    known += [f"{count:,} {name}" for name, count in counts.items() if count is not None]
    lines = [f"{source}: {', '.join(known) or 'no totals'}", *(f"assumed: {sentence}" for sentence in found.assumed)]
    for line in [*lines, *([f"wrote {out}"] if out is not None else [])]:
        console.print(Text(line), soft_wrap=True)


def guard(
    reference: Annotated[Path, typer.Argument(help="Responses to prompts, or a folder with a report of each.")],
    now: Annotated[Path | None, typer.Argument(help=_NOW, show_default=False)] = None,
    drop: Annotated[str, typer.Option(metavar="SHARE", help="The relative drop that matters.")] = "2%",
    alpha: Annotated[float, typer.Option(help="Maximum probability of either wrong verdict.")] = 0.01,
) -> None:
    """Say whether acceptance fell, and where. Exit status: 0 if it held, 1 if it fell, 2 if undecided."""
    from spectheory.engines.request_counts import compared_parts, read_requests
    from spectheory.report.tables import TextTable
    from spectheory.results.acceptance_drop import drop_verdicts, prompts_needed
    from spectheory.results.paired_difference import paired_difference

    try:
        lost = float(drop.removesuffix("%")) / (100 if "%" in drop else 1)
    except ValueError:
        raise InputError(f"--drop must be a share such as 2%, got {drop!r:.40}") from None
    runs = [read_requests(path) for path in (reference, now) if path]
    parts = compared_parts(runs[0], runs[-1])
    before, after = parts["all prompts"]
    needed = prompts_needed(before, after if now else None, lost, alpha)
    within = "more than 10,000" if needed is None else f"{needed:,}"
    power = f"Of runs that lose {drop}, 90% are found within {within} {'such' if now else 'other'} prompts."
    if not now:
        console.print(f"{len(before.numerators):,} prompts, tau {before.value:.3f}. {power}", soft_wrap=True)
        return
    verdicts = drop_verdicts([*parts.values()], lost, alpha)
    rows = []
    for (name, (old, new)), (said, _) in zip(parts.items(), verdicts, strict=True):
        change = paired_difference([new], [old])
        shown = f"{change.percent:+.1f}% ±{change.half_width(0.95):.1f}"
        rows.append((name, f"{old.value:.3f}", f"{new.value:.3f}", shown, said))
    verdict, at = verdicts[0]
    console.print(Text(f"{verdict} after {at} of {len(before.numerators)} prompts", style="bold"))
    console.print(TextTable("", ("tau, rates by position", "reference", "now", "change, 95%", "verdict"), tuple(rows)))
    levels = f"Each wrong with probability at most {alpha:g}: FELL, HELD (less than {drop} is lost, if all lose alike)."
    console.print(f"{levels}\n{power}", soft_wrap=True)
    raise typer.Exit(("HELD", "FELL", "UNDECIDED").index(verdict))


def diagnose(
    source: Source,
    files: ReportFiles,
    plain: Annotated[
        list[Path] | None,
        typer.Option(help="Report of the server without speculation, under the same load; twice for two scrapes."),
    ] = None,
    model_label: Annotated[
        str | None, typer.Option(help="Value of the label model_name to diagnose.", show_default="every model")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="Key or name of the GPU, for computed times; needs --target and --draft.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Target, as in `spectheory schedule`.")] = None,
    draft: Annotated[str | None, typer.Option(help="Draft, as in `spectheory schedule`.")] = None,
    gpus: Gpus = Deployment.gpus,
    latency: Annotated[
        list[Path] | None,
        typer.Option(help="Latency record, of `profile` or of CalibratedCosts.latency, in place of --gpu; or several."),
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(metavar="K or NODES:LEVELS", help="Drafted tokens and levels, if the files do not say it: 60:6."),
    ] = None,
    batch: Annotated[
        float | None, typer.Option(min=1, help="Mean number of sequences that decode, if the files do not say it.")
    ] = None,
    explain: Explain = False,
    add: Add = False,
    as_json: Json = False,
) -> None:
    """Say how many drafted tokens a server should run, beside what its reports say that it does now.

    Without forward times, from --gpu or --latency, it shows only what it does now.
    """
    named = (gpu, target, draft)
    if (any(named) or gpus > 1) and (latency or not all(named)):
        raise InputError("give --gpu, --target and --draft together, also with --gpus, or --latency instead")
    times = None if not latency else [Latency.load(path) for path in latency]
    if gpu and target and draft:
        times = Deployment(gpu, target, draft, gpus, engine=engines.timed_engine(source))
    shape = None if tree is None else shape_in("--tree", tree)
    given = {"plain": plain, "times": times, "model": model_label, "shape": shape, "batch": batch, "add": add}
    found = engines.diagnose(_reports(files), source, **given)
    if as_json:
        print(json.dumps([each.to_dict() for each in found], indent=1))
        return
    for each in found:
        settings: list[str] = []
        if each.plan is not None and engines.engine_of(source).exporter:
            with suppress(InputError):  # a draft that the engine cannot run, or that no record names
                export = engines.export(each.plan, engines.engine_of(source).name)
                files = [f"  {name}:\n{text.rstrip()}" for name, text in export.files.items()]
                settings = [*export.lines(notes=None if explain else 0), *files]
        for line in _shown(each, settings, explain or (times is not None and each.plan is None)):
            console.print(Text(line) if isinstance(line, str) else line, soft_wrap=isinstance(line, str))


def _shown(found: engines.Diagnosis, settings: Sequence[str], explain: bool) -> Iterator[RenderableType]:
    """What to run and what the server does now, the plan, the settings, what to measure, and the parts of a cycle."""
    from spectheory.planning.advice import advice
    from spectheory.planning.planner import other_models
    from spectheory.report.answer import schedule_rows
    from spectheory.report.tables import MISSING, TextTable

    said = [f"tau {found.tau:.2f}"]
    said += [f"{found.nodes:.3g} drafted tokens a cycle"] if found.nodes is not None else []
    said += [f"batch {found.batch:.3g}"] if found.batch is not None else []
    computed = found.plan is not None and found.plan.latency.computed
    kind = "measured" if found.observed.plain else "computed" if computed else "recorded"
    said += [] if found.speedup is None else [f"{found.speedup:.2f}x {kind} plain decoding"]
    rates = [f"{rate:.2f}" for rate in found.rates]
    said += [f"rates {', '.join(rates if len(set(rates)) > 1 else rates[:1])}"] if rates else []
    if found.plan is not None:
        yield Text(found.answer, style="bold")
    more = "" if explain else " More with --explain."
    yield Text("Now: " + f"{found.engine} {found.model}".strip() + f", {', '.join(said)}.{more}")
    if found.plan is not None:
        off = (found.observed.cycle or 0) / (found.predicted.cycle or 1)
        careful = [other_models(found.plan.acceptance.provenance, found.plan.latency.provenance)]
        careful += [f"a cycle takes {off:.1f} times as long as predicted, so the plan may err"] * (off > 1.5)
        yield from (Text(f"Careful: {what}.") for what in careful if what)
        yield schedule_rows(found.plan, explained=explain)
        yield from settings
        yield from map(Text, advice(found.plan))
    parts = {name: (s, getattr(found.predicted, name)) for name, s in asdict(found.observed).items()}
    cells = {name: [MISSING if s is None else f"{1e3 * s:.2f}" for s in both] for name, both in parts.items()}
    rows = [(name, *both) for name, both in cells.items() if set(both) - {MISSING, "0.00"}]
    if rows:
        yield TextTable("", ("ms of a cycle", "observed", "predicted"), tuple(rows))
    yield from (Text(f"note: {note}") for note in found.notes if explain)
