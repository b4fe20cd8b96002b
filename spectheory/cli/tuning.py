"""The command `tune`: the schedule of highest goodput under a load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.exporting import Exports, found_engines
from spectheory.cli.options import Force, Json, Seed
from spectheory.cli.output import Output, loaded, progress, require_free, show
from spectheory.cli.planning import EngineNames, names_of
from spectheory.core.errors import InputError
from spectheory.planning.fitting import Fitting
from spectheory.planning.schedule_record import Schedule

LIMITS = ("ttft", "tpot")
"""The times that --slo limits."""

LoadText = Annotated[
    str,
    typer.Option(
        "--load",
        help="Requests that arrive, such as poisson:12 (requests a second), bursts:12,cv=3, closed:32 (requests at a "
        "time), or the file of a trace (Azure, Mooncake, BurstGPT, AIPerf, vLLM). Options follow after commas: "
        "count=20000, prompt=lognormal:800:1.5, output=geometric:200.",
    ),
]


def tune(
    schedule: Annotated[
        Path,
        typer.Argument(metavar="SCHEDULE", help="Schedule to start from, from `spectheory schedule --batch 1:M`."),
    ],
    load: LoadText,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo",
            help="Limits for a request, in seconds: on its time to the first token and on its mean time per output "
            "token, such as ttft=0.5,tpot=0.03. One of them is enough.",
            show_default="no limit: goodput is throughput",
        ),
    ] = None,
    replications: Annotated[
        int, typer.Option("--replications", help="Number of simulated loads, half to choose and half to judge.")
    ] = 8,
    tries: Annotated[int, typer.Option("--tries", help="Largest number of schedules to try.")] = 200,
    max_sequences: Annotated[
        int | None,
        typer.Option(
            "--max-sequences", help="Most sequences at a time.", show_default="largest batch size of the schedule"
        ),
    ] = None,
    batched_tokens: Annotated[
        int, typer.Option("--batched-tokens", help="Token budget of a step; prompts are read with what drafts leave.")
    ] = 8192,
    kv_tokens: Annotated[
        int | None, typer.Option("--kv-tokens", help="Tokens that fit into the KV memory.", show_default="unlimited")
    ] = None,
    engine: EngineNames = None,
    draft: Annotated[
        str | None,
        typer.Option("--draft", help="Draft to name in the engine settings.", show_default="the draft of the schedule"),
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File for the tuned schedule. Files for engines are written to its folder."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find the schedule with the most requests per second within limits on latency, by simulating a server under load.

    It is chosen on one half of the simulated loads and judged on the other half, beside the planned schedule, no
    speculation, and the next best schedules.
    """
    from simulate import Server
    from simulate import tune as search
    from spectheory.report.tuning import tuned_ranges, tuned_rows

    limits, engines = limits_of(slo), names_of(engine)
    found_engines(engines)
    require_free([schedule], Output(out, "schedule"), force=force)
    planned = loaded(Schedule, schedule)
    server = Server.of(planned, max_sequences=max_sequences, batched_tokens=batched_tokens, kv_tokens=kv_tokens)
    with progress("schedules") as tell:
        tuned = search(
            planned,
            load,
            server=server,
            replications=replications,
            tries=tries,
            seed=seed,
            progress=tell,
            slo_ttft_seconds=limits.get("ttft"),
            slo_tpot_seconds=limits.get("tpot"),
        )
    exports = Exports.of(Fitting.of(tuned.schedule, draft=draft), engines, out)
    require_free([schedule], Output(out, "schedule"), *exports.files, force=force)
    if out is not None:
        tuned.schedule.save(out)
    show(tuned, tuned_rows(tuned), tuned_ranges(tuned), as_json=as_json)
    exports.write(aside=as_json)


def limits_of(text: str | None) -> dict[str, float]:
    """The limits in seconds that --slo names, such as `ttft=0.5,tpot=0.03`.

    Raises:
        InputError: a limit is unknown, given twice, or not a number above 0.
    """
    found: dict[str, float] = {}
    for part in () if text is None else text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in LIMITS or name in found:
            raise InputError(f"--slo must be ttft=SECONDS, tpot=SECONDS or both with a comma between, got {text!r:.60}")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < float("inf"):
            raise InputError(f"--slo: {name} must be a number of seconds above 0, got {value!r:.40}")
    return found
