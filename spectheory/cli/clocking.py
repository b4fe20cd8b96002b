"""The command `clock`: the speed of every decoder on the same prompts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectheory.cli.measuring import TopK, TopP, long_enough, warn_of_mismatches
from spectheory.cli.options import (
    SHIPPED,
    SHIPPED_PROMPTS,
    Count,
    Json,
    PairOptions,
    PromptOptions,
    Seed,
    Temperature,
)
from spectheory.cli.output import progress, show
from spectheory.core.acceptance import MIN_TRIALS
from spectheory.core.errors import InputError
from spectheory.core.files import owned
from spectheory.planning.schedule_record import Schedule
from spectheory.results.wall_clock import WallClock

if TYPE_CHECKING:
    from reference.models import Pair
    from reference.wall_clock import ClockSettings


def clock(
    pair: PairOptions = SHIPPED,
    skip: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of prompts to skip at the start of the file. Without --plan, they are used to measure a plan.",
        ),
    ] = 40,
    count: Count = 8,
    text: PromptOptions = SHIPPED_PROMPTS,
    temperature: Temperature = 0.0,
    top_k: TopK = None,
    top_p: TopP = 1.0,
    rounds: Annotated[
        int,
        typer.Option(
            help="Number of times that each decoder decodes each prompt. The median of the times is reported."
        ),
    ] = 3,
    plan: Annotated[Path | None, typer.Option(help="Plan to decode with.", show_default="measure one")] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="File for the record. To continue an interrupted run, repeat the command.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure tokens per second of every decoder, and of transformers' own decoding, on the same prompts.

    Set the number of CPU threads with the environment variable OMP_NUM_THREADS.
    """
    from reference.wall_clock import ClockSettings, entrants, library
    from reference.wall_clock import clock as run
    from spectheory.report.wall_clock import clock_rows, clock_words
    from spectheory.results.comparison import mismatches

    settings = ClockSettings(text.new_tokens, temperature, rounds, seed, top_k, top_p)
    plans = () if plan is None else (Schedule.load(plan),)
    if not plans and not skip:
        raise InputError("--skip 0 leaves no prompts to measure a plan on: raise --skip, or give a plan with --plan")
    with nullcontext() if out is None else owned(out):
        record = WallClock.load(out) if out is not None and out.exists() else None
        text.read(skip, count, least_skip=int(not plans))
        models = pair.load()
        rows = text.encoded(models, skip, count, least_skip=int(not plans))
        if not plans:
            plans = (
                (record.plan, *record.rivals) if record else _measured(models, text.encoded(models, 0, skip), settings)
            )
        warn_of_mismatches(plans[0], models, settings.sampling.stamp)
        running = entrants(models, plans, settings, library(models))
        with progress("clock") as done:
            for longer in run(models, rows, plans, running, settings, record, done):
                if out is not None:
                    longer.save(out)
                record = longer
    assert record is not None
    words = [f"{sentence}\n" for sentence in clock_words(record)]
    words += [f"But {said}.\n" for said in mismatches(record.plan, record.provenance)]
    show(record, clock_rows(record), "", *words, as_json=as_json, out=out)


def _measured(pair: Pair, prompts: list[list[int]], settings: ClockSettings) -> tuple[Schedule, ...]:
    from reference.planning_loop import measured_plan, rivals

    enough = long_enough(
        len(prompts) * settings.new_tokens, MIN_TRIALS, "raise --skip or --new-tokens, or give a plan with --plan"
    )
    with (
        enough,
        progress("plan") as done,
    ):
        chosen, texts = measured_plan(
            pair,
            prompts,
            new_tokens=settings.new_tokens,
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            seed=settings.seed,
            done=done,
        )
        return chosen, *rivals(chosen, texts)
