"""The command that lays speeds side by side: clock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectheory.cli.measuring import load, long_enough, prompts_of, warn_of_mismatches
from spectheory.cli.output import (
    AttentionKind,
    Count,
    Device,
    DraftFolder,
    Dtype,
    Json,
    NewTokens,
    PromptFile,
    PromptTokens,
    Seed,
    TargetFolder,
    Temperature,
    progress,
    show,
)
from spectheory.core.acceptance import MIN_TRIALS
from spectheory.core.errors import InputError
from spectheory.planning.planner import Plan
from spectheory.results.wall_clock import WallClock

if TYPE_CHECKING:
    from reference.models import Pair
    from reference.wall_clock import ClockSettings


def clock(
    target: TargetFolder = None,
    draft: DraftFolder = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    attention: AttentionKind = "sdpa",
    prompts: PromptFile = None,
    skip: Annotated[
        int, typer.Option("--skip", min=0, help="Prompts to pass over; without --plan the plan is measured on these.")
    ] = 40,
    count: Count = 8,
    prompt_tokens: PromptTokens = 64,
    new_tokens: NewTokens = 128,
    temperature: Temperature = 0.0,
    rounds: Annotated[int, typer.Option(help="Runs of each prompt by each decoder; the median one counts.")] = 3,
    plan: Annotated[Path | None, typer.Option("--plan", help="The plan to run, else one is measured here.")] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the record; the same command continues an interrupted one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Clock every decoder beside transformers' own on the same prompts; threads are those of OMP_NUM_THREADS."""
    from reference.wall_clock import ClockSettings, entrants, library
    from reference.wall_clock import clock as run
    from spectheory.report.terminal import text_table
    from spectheory.report.wallclock import clock_rows, clock_words
    from spectheory.results.comparison import mismatches

    settings = ClockSettings(new_tokens, temperature, rounds, seed)
    record = WallClock.load(out) if out is not None and out.exists() else None
    given = None if plan is None else Plan.load(plan)
    if given is None and not skip:
        raise InputError("--skip 0 leaves no prompts to measure a plan on: raise it, or give a --plan")
    pair = load(target, draft, device, dtype, attention)
    rows = prompts_of(pair, prompts, skip, count, prompt_tokens, least_skip=int(given is None))
    if given is None:
        before = [] if record else prompts_of(pair, prompts, 0, skip, prompt_tokens)
        given = record.plan if record else _measured(pair, before, settings)
    warn_of_mismatches(given, pair, temperature)
    running = entrants(pair, given, settings, library(pair))
    with progress("clock") as done:
        for longer in run(pair, rows, given, running, settings, record):
            if out is not None:
                longer.save(out)
            done(longer.prompts, len(rows))
            record = longer
    assert record is not None
    words = [f"{sentence}\n" for sentence in clock_words(record)]
    words += [f"But {said}.\n" for said in mismatches(record.plan, record.provenance)]
    show(record, text_table(clock_rows(record)), "", *words, as_json=as_json, out=out)


def _measured(pair: Pair, prompts: list[list[int]], settings: ClockSettings) -> Plan:
    from reference.planning_loop import measured_plan

    enough = long_enough(
        len(prompts) * settings.new_tokens, MIN_TRIALS, "raise --skip or --new-tokens, or give a --plan"
    )
    with enough, progress("plan") as done:
        return measured_plan(
            pair,
            prompts,
            new_tokens=settings.new_tokens,
            temperature=settings.temperature,
            seed=settings.seed,
            done=done,
        )
