"""The command `serve`: an engine under a load of requests, simulated without models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from spectheory.cli.options import Force, Json, Seed, names_of
from spectheory.cli.output import loaded, require_free, show
from spectheory.planning.schedule_record import Schedule

MaxSequences = Annotated[
    int | None,
    typer.Option(
        "--max-sequences",
        help="Maximum number of sequences that run at the same time.",
        show_default="largest batch size of the schedule",
    ),
]
BatchedTokens = Annotated[
    int | None,
    typer.Option(
        "--batched-tokens", help="Token budget of a step, for cycles and pieces of prompts.", show_default="8192"
    ),
]
KvTokens = Annotated[
    int | None,
    typer.Option(
        "--kv-tokens",
        help="Tokens that fit into the KV memory.",
        show_default="what the weights leave, if GPU and models are known",
    ),
]
SloTtft = Annotated[float | None, typer.Option("--slo-ttft", help="Limit on the time to the first token, in seconds.")]
SloTpot = Annotated[float | None, typer.Option("--slo-tpot", help="Limit on the time per output token, in seconds.")]


def serve(
    schedule: Annotated[Path, typer.Option(help="Schedule to serve with, from `spectheory schedule`.")],
    load: Annotated[
        str,
        typer.Option(
            help="Requests that arrive: poisson:RATE, bursts:RATE,cv=CV, profile:RATE/RATE,seconds=S/S, "
            "closed:CONCURRENCY, with options such as count=5000,prompt=lognormal:800:1.5,output=geometric:200, or the "
            "file of a trace (Azure, Mooncake, vLLM bench)."
        ),
    ],
    seconds: Annotated[float | None, typer.Option(help="Simulated seconds after which serving stops.")] = None,
    max_sequences: MaxSequences = None,
    batched_tokens: BatchedTokens = None,
    kv_tokens: KvTokens = None,
    controller: Annotated[
        str | None,
        typer.Option(
            help="Engines' own controllers to compare too, comma-separated, with the chains of the schedule: vllm (its "
            "table of batch sizes), sglang (its adaptive steps)."
        ),
    ] = None,
    slo_ttft: SloTtft = None,
    slo_tpot: SloTpot = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="File for the serving runs.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Simulate an engine that serves a load with a schedule, without models.

    The load is served without speculation, with the schedule, and with each of its trees alone, on the same requests
    and random numbers. Tokens are accepted as the schedule predicts.
    """
    require_free([schedule, Path(load.split(",")[0])], out, force=force)
    planned = loaded(Schedule, schedule)
    from simulate.load import parse
    from simulate.serving import Server, compare_schedules, engine_controller, schedules_in
    from spectheory.report.serving import serving_answer, serving_rows

    limits = {"max_sequences": max_sequences, "batched_tokens": batched_tokens, "kv_tokens": kv_tokens}
    server = Server.of(planned, **{name: limit for name, limit in limits.items() if limit is not None})
    engines = {name: engine_controller(name, planned, server.sequences) for name in names_of(controller)}
    comparison = compare_schedules(
        schedules_in(planned) | engines,
        parse(load).requests(seed),
        server=server,
        seed=seed,
        until_seconds=seconds,
        slo_ttft_seconds=slo_ttft,
        slo_tpot_seconds=slo_tpot,
    )
    notes = [Text(f"assumed: {sentence}") for sentence in comparison.provenance.assumptions]
    answer = Text(serving_answer(comparison, planned), style="bold")
    show(comparison, answer, serving_rows(comparison), *notes, as_json=as_json, out=out)
