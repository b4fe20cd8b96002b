"""The command `simulate`: decoding with a plan, or serving a load of requests with a schedule, without models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from spectheory.cli.exporting import names_of
from spectheory.cli.options import BatchedTokens, Force, Json, KvTokens, MaxSequences, Seed, SloTpot, SloTtft
from spectheory.cli.output import Output, require_free, show
from spectheory.core.errors import InputError
from spectheory.core.record import load as load_record
from spectheory.planning.plan_record import Plan
from spectheory.planning.schedule_record import Schedule

CYCLES = 20_000


def simulate(
    plan: Annotated[Path | None, typer.Option(help="Plan to simulate, from `spectheory plan`.")] = None,
    cycles: Annotated[
        int | None,
        typer.Option(help="Number of draft-and-verify cycles to simulate with --plan.", show_default=str(CYCLES)),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            help="Serve this load: poisson:RATE, bursts:RATE,cv=CV, closed:CONCURRENCY, another form of "
            "docs/serving_simulation.md, or the file of a trace (Azure, BurstGPT, Mooncake, AIPerf, vLLM bench)."
        ),
    ] = None,
    schedule: Annotated[Path | None, typer.Option(help="Schedule to serve with, from `spectheory schedule`.")] = None,
    prompt_tokens: Annotated[
        str | None,
        typer.Option(help="Number of tokens of each prompt, such as 512 or lognormal:512:1.5, for a --load."),
    ] = None,
    output_tokens: Annotated[
        str | None, typer.Option(help="Number of tokens of each answer, such as 256 or geometric:256, for a --load.")
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Number of requests of a --load.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Simulated seconds after which serving stops.")] = None,
    max_sequences: MaxSequences = None,
    batched_tokens: BatchedTokens = 8192,
    kv_tokens: KvTokens = None,
    controller: Annotated[
        str | None,
        typer.Option(
            help="Engines' own controllers to compare too, comma-separated, with the chains of the schedule: vllm (its "
            "table of batch sizes), vllm-adaptive (adaptive verification), sglang (its adaptive steps), trtllm (its "
            "draft_len_schedule)."
        ),
    ] = None,
    slo_ttft: SloTtft = None,
    slo_tpot: SloTpot = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="File for the counts of the cycles, or for the serving runs.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Simulate decoding with a plan, or serving a load with a schedule, without models.

    Tokens are accepted at the rates, or at the replayed reach, of the plan or the schedule. A load is served without
    speculation, with the schedule, and with each of its trees alone, on the same requests and random numbers.
    """
    if load is None:
        given = {"--schedule": schedule, "--requests": requests, "--seconds": seconds, "--slo-ttft": slo_ttft}
        given |= {"--slo-tpot": slo_tpot, "--prompt-tokens": prompt_tokens, "--output-tokens": output_tokens}
        given |= {"--max-sequences": max_sequences, "--kv-tokens": kv_tokens, "--controller": controller}
        _cycles(plan, CYCLES if cycles is None else cycles, seed, out, given, force=force, as_json=as_json)
        return
    if cycles is not None:
        raise InputError("--cycles is for a plan without a --load: give --requests or --seconds")
    source, trace = _source(plan, schedule), Path(load.split(",")[0])
    require_free([source, trace], Output(out, "serving_comparison"), force=force)
    planned = load_record(source)
    if not isinstance(planned, Plan | Schedule):
        raise InputError(
            f"{source} must hold a plan or a schedule, got a record of kind {planned.kind!r}: make a schedule with "
            "`spectheory schedule`"
        )
    if controller is not None and not isinstance(planned, Schedule):
        raise InputError("--controller needs --schedule: engines choose chains by batch size")
    from simulate.controllers import engine_controller
    from simulate.load import parse
    from simulate.serving import Server, compare_schedules, require_sustained, schedules_in
    from spectheory.report.serving import serving_answer, serving_rows

    contents = {"prompt": prompt_tokens, "output": output_tokens, "count": requests}
    options = [f"{name}={value}" for name, value in contents.items() if value is not None]
    described = parse(",".join([load, *options]))
    arriving = described.requests(seed)
    limits = {"max_sequences": max_sequences, "batched_tokens": batched_tokens, "kv_tokens": kv_tokens}
    server, schedules = Server.of(planned, **limits), schedules_in(planned)
    if isinstance(planned, Schedule):
        schedules |= {name: engine_controller(name, planned, server.sequences) for name in names_of(controller)}
    if seconds is None and not described.has_end:
        require_sustained(schedules, arriving, server=server)
    comparison = compare_schedules(
        schedules,
        arriving,
        server=server,
        seed=seed,
        until_seconds=seconds,
        slo_ttft_seconds=slo_ttft,
        slo_tpot_seconds=slo_tpot,
    )
    notes = [Text(f"assumed: {sentence}") for sentence in comparison.provenance.assumptions]
    answer = Text(serving_answer(comparison, planned if isinstance(planned, Schedule) else None))
    show(comparison, serving_rows(comparison), answer, *notes, as_json=as_json, out=out, force=force)


def _cycles(
    plan: Path | None, cycles: int, seed: int, out: Path | None, given: dict[str, Any], *, force: bool, as_json: bool
) -> None:
    """Simulate cycles of one plan."""
    from simulate import run
    from spectheory.report.tables import comparison_rows
    from spectheory.results.plan_comparison import compare

    if used := [name for name, value in given.items() if value is not None]:
        raise InputError(f"{used[0]} needs a --load, such as --load poisson:12")
    if plan is None:
        raise InputError("give --plan, to simulate cycles of a plan, or --load and --schedule, to simulate serving")
    require_free([plan], Output(out, "tally"), force=force)
    planned = Plan.load(plan)
    tally = run(planned, cycles=cycles, seed=seed)
    show(tally, comparison_rows(compare(planned, tally, "simulation")), as_json=as_json, out=out, force=force)


def _source(plan: Path | None, schedule: Path | None) -> Path:
    """The file of the plan or the schedule that serves a load."""
    if schedule is not None and plan is not None:
        raise InputError("give either --schedule or --plan with a --load, not both")
    if schedule is not None:
        return schedule
    if plan is not None:
        return plan
    raise InputError("--load needs --schedule, from `spectheory schedule`: its times and rates are simulated")
