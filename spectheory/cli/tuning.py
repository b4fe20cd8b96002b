"""The command `tune`: the schedule of highest goodput under a load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.exporting import Exports, engines_of
from spectheory.cli.options import BatchedTokens, Force, Json, KvTokens, MaxSequences, Seed, SloTpot, SloTtft, quick
from spectheory.cli.output import Output, loaded, progress, require_free, show
from spectheory.cli.planning import EngineNames
from spectheory.planning.fitting import Fitting
from spectheory.planning.schedule_record import Schedule


@quick(replications=4, tries=30)
def tune(
    schedule: Annotated[Path, typer.Option(help="Schedule to start from, from `spectheory schedule --batch 1:M`.")],
    load: Annotated[
        str,
        typer.Option(
            help="Requests that arrive: poisson:RATE, bursts:RATE,cv=CV, closed:CONCURRENCY, and more forms and "
            "options such as count=5000,prompt=lognormal:800:1.5,output=geometric:200, or the file of a trace (Azure, "
            "BurstGPT, Mooncake, AIPerf, vLLM bench)."
        ),
    ],
    slo_ttft: SloTtft = None,
    slo_tpot: SloTpot = None,
    replications: Annotated[
        int, typer.Option(help="Number of simulated loads: half choose the schedule, the other half judge it.")
    ] = 8,
    tries: Annotated[int, typer.Option(help="Maximum number of schedules to try.")] = 200,
    max_sequences: MaxSequences = None,
    batched_tokens: BatchedTokens = 8192,
    kv_tokens: KvTokens = None,
    engine: EngineNames = None,
    draft: Annotated[
        str | None, typer.Option(help="Draft to name in the engine settings.", show_default="the draft of the schedule")
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="File for the tuned schedule. Files for engines are written to its folder.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Find the schedule with the most requests per second within limits on latency, by simulating a server under load.

    It is chosen on one half of the simulated loads and judged on the other half, compared with the planned schedule, no
    speculation, and the next best schedules.
    """
    engines = engines_of(engine)
    files = [schedule, Path(load.split(",")[0])], Output(out, "schedule")
    require_free(*files, force=force)
    planned = loaded(Schedule, schedule)

    from simulate import Server
    from simulate import tune as search
    from spectheory.report.tuning import tuned_ranges, tuned_rows

    server = Server.of(planned, max_sequences=max_sequences, batched_tokens=batched_tokens, kv_tokens=kv_tokens)
    with progress("schedules", "lower --replications or --tries", "replications", "tries", announced=True) as tell:
        tuned = search(
            planned,
            load,
            server=server,
            replications=replications,
            tries=tries,
            seed=seed,
            progress=tell,
            slo_ttft_seconds=slo_ttft,
            slo_tpot_seconds=slo_tpot,
        )
    exports = Exports.of(Fitting.of(tuned.schedule, draft=draft), engines, out)
    require_free(*files, *exports.files, force=force)
    if out is not None:
        tuned.schedule.save(out)
    show(tuned, tuned_rows(tuned), tuned_ranges(tuned), as_json=as_json)
    exports.write(aside=as_json)
