"""Commands that run models: trace, profile, decode, train."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectheory.cli.output import (
    AttentionKind,
    Count,
    Device,
    DraftFolder,
    Dtype,
    Json,
    NewTokens,
    Output,
    PromptFile,
    PromptTokens,
    Seed,
    Skip,
    TargetFolder,
    Temperature,
    errors,
    progress,
    require_free,
    show,
    warn,
)
from spectheory.core.acceptance import MIN_TRIALS, TooFewTrialsError
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.planning.planner import Plan
from spectheory.results.tally import Tally

if TYPE_CHECKING:
    from reference.models import Pair


def load(target: Path | None, draft: Path | None, device: Device, dtype: Dtype, attention: AttentionKind) -> Pair:
    """The named pair, or the shipped one."""
    import torch
    from transformers.utils import logging

    from reference.models import SHIPPED, load_pair

    logging.disable_progress_bar()
    folders = target or SHIPPED / "target", draft or SHIPPED / "draft"
    return load_pair(*folders, device=device, dtype=getattr(torch, dtype), attention=attention)


def prompts_of(
    pair: Pair, file: Path | None, skip: int, count: int, tokens: int, *, least_skip: int = 0
) -> list[list[int]]:
    """`count` prompts of the file after the first `skip`, `tokens` long; the command takes `least_skip` or more."""
    from reference.prompts import HELD_OUT, encode_prompts, load_prompts

    if count < 1:
        raise InputError(f"count must be at least 1, got {count}")
    return encode_prompts(pair, load_prompts(file or HELD_OUT, count, skip, least_skip=least_skip), tokens, skip)


def refuse_all_but(names: Collection[str], context: typer.Context, mode: str) -> None:
    """Refuse options that the command line gives though they mean nothing beside `mode`: those not among `names`."""
    unused = [one for one in context.command.params if one.name and one.name not in names]
    sources = {one.opts[0]: context.get_parameter_source(str(one.name)) for one in unused}
    given = [option for option, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        raise InputError(f"{', '.join(given)} would mean nothing with {mode}: leave one or the other out")


@contextmanager
def long_enough(most: int, needed: int, repair: str) -> Iterator[None]:
    """Around a trace of `most` positions at most: which options would give the `needed` ones to count rates from.

    A trace that cannot have these is refused beforehand.
    """
    repair = f"{needed} are needed to count rates from: {repair}"
    if 0 < most < needed:
        raise InputError(f"the trace can have {most} positions at most, {repair}")
    try:
        yield
    except TooFewTrialsError as error:
        raise InputError(f"the trace has {error.trials} positions that count, {repair}") from None


def warn_of_mismatches(plan: Plan, pair: Pair, temperature: float) -> None:
    """A line on standard error for each thing that the plan's rates are known to be of and the decoding is not."""
    from spectheory.results.comparison import mismatches

    for said in mismatches(plan, Provenance("decoding", temperature=temperature, **pair.stamp)):
        warn(said)


def trace(
    out: Annotated[Path, typer.Option("--out", help="Folder for the trace; an interrupted one is continued.")],
    target: TargetFolder = None,
    draft: DraftFolder = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    attention: AttentionKind = "sdpa",
    prompts: PromptFile = None,
    skip: Skip = 0,
    count: Count = 40,
    prompt_tokens: PromptTokens = 64,
    new_tokens: NewTokens = 128,
    temperature: Temperature = 0.0,
    top_k: Annotated[int, typer.Option(help="Candidates of the draft at each position.")] = 16,
    batch: Annotated[int, typer.Option(help="Prompts run together; one Parquet file each.")] = 8,
    plan: Annotated[
        Path | None,
        typer.Option(help="Count only from where cycles with this plan start. A finished trace is not recorded anew."),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Record the rank of the target's token among the draft's candidates, and reduce it to acceptance rates."""
    from reference import tracing
    from spectheory.report.terminal import acceptance_table

    require_free([plan], Output(out / "acceptance.json", "acceptance"))
    policy = None if plan is None else Plan.load(plan)
    with long_enough(count * new_tokens, MIN_TRIALS, "raise --count or --new-tokens, in a new folder"):
        pair = load(target, draft, device, dtype, attention)
        rows = prompts_of(pair, prompts, skip, count, prompt_tokens)
        settings = tracing.TraceSettings(
            dataset=str(prompts or "shipped held-out prompts"),
            temperature=temperature,
            top_k=top_k,
            new_tokens=new_tokens,
            batch=batch,
            seed=seed,
        )
        with progress("trace") as done:
            tracing.record_trace(pair, rows, settings, out, done)
        counted = None if policy is None else policy.tree
        acceptance = tracing.acceptance(out, min_trials=MIN_TRIALS, policy=counted)
    show(acceptance, acceptance_table(acceptance), as_json=as_json, out=out / "acceptance.json")


def profile(
    out: Annotated[Path, typer.Option("--out", help="File for the latency record.")],
    target: TargetFolder = None,
    draft: DraftFolder = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    attention: AttentionKind = "sdpa",
    contexts: Annotated[str, typer.Option(help="Tokens in the KV cache, comma-separated.")] = "64,256,512",
    largest: Annotated[int, typer.Option(help="Largest forward; sizes are its powers of two.")] = 256,
    rounds: Annotated[int, typer.Option(help="Timed forwards of each size.")] = 15,
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure seconds per forward of 1, 2, 4, ... tokens for both models on this machine."""
    from reference.profiling import profile as measure_latency
    from spectheory.report.terminal import latency_table

    require_free([], Output(out, "latency"))
    if largest < 1:
        raise InputError(f"largest must be at least 1, got {largest}")
    try:
        sizes = [int(size) for size in contexts.split(",")]
    except ValueError:
        raise InputError(f"contexts must be whole numbers with commas between them, got {contexts!r}") from None
    with progress("profile") as done:
        latency = measure_latency(
            load(target, draft, device, dtype, attention),
            tokens=[2**i for i in range(largest.bit_length())],
            contexts=sizes,
            rounds=rounds,
            temperature=temperature,
            seed=seed,
            done=done,
        )
    show(latency, latency_table(latency), as_json=as_json, out=out)


CONTINUING = ("plan", "target", "draft", "device", "dtype", "attention", "text", "new_tokens", "temperature", "seed")
"""Options of `decode` that mean something where it continues a text."""


def decode(
    context: typer.Context,
    plan: Annotated[Path, typer.Option("--plan", help="The plan to verify with.")],
    target: TargetFolder = None,
    draft: DraftFolder = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    attention: AttentionKind = "sdpa",
    prompts: PromptFile = None,
    text: Annotated[str | None, typer.Option(help="Continue this text and print it, instead of measuring.")] = None,
    skip: Annotated[int, typer.Option(min=0, help="Prompts to pass over: those that `trace` takes by default.")] = 40,
    count: Count = 20,
    prompt_tokens: PromptTokens = 64,
    new_tokens: NewTokens = 128,
    temperature: Annotated[float | None, typer.Option(help="Default: that of the plan's acceptance.")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File for the tally.")] = None,
    as_json: Json = False,
) -> None:
    """Decode with a plan on real models and lay measured tau beside predicted tau.

    Above temperature 0 the naive solver verifies, TopDown(Naive()), whose acceptance `trace` records.
    """
    from spectheory.report.terminal import comparison_table
    from spectheory.results.comparison import compare

    if text is not None:
        refuse_all_but(CONTINUING, context, "--text, which is continued and printed")
        if not text:
            raise InputError("--text is empty: give at least one character to continue")
    require_free([plan], Output(out, "tally"))
    planned = Plan.load(plan)
    if temperature is None:
        temperature = planned.acceptance.temperature or 0.0
    if text is not None:
        print(_continue(load(target, draft, device, dtype, attention), planned, text, new_tokens, temperature, seed))
        return
    from reference.measuring import require_cycle

    require_cycle(new_tokens)
    pair = load(target, draft, device, dtype, attention)
    warn_of_mismatches(planned, pair, temperature)
    rows = prompts_of(pair, prompts, skip, count, prompt_tokens)
    settings = {"new_tokens": new_tokens, "temperature": temperature, "seed": seed}
    tally = measured(pair, planned, rows, out, skip, **settings)
    show(tally, comparison_table(compare(planned, None, tally)), as_json=as_json, out=out)


def measured(pair: Pair, plan: Plan, prompts: list[list[int]], out: Path | None, skip: int, **settings: Any) -> Tally:
    """Decode every prompt with the plan and plainly; `out` holds the tally of the finished ones at any time.

    `skip` is the number of the first prompt in its file, from 0.
    """
    from reference.measuring import measure

    def say(request: int, where: object) -> None:
        errors.print(f"prompt {skip + request}: {where}")

    total: Tally | None = None
    with progress("decode") as done:
        for tally in measure(pair, plan.tree, prompts, **settings, diverged=say):
            if total is None:
                total = replace(
                    tally, provenance=tally.provenance.replace(settings=tally.provenance.settings | {"skip": skip})
                )
            else:
                total += tally
            if out is not None:
                total.save(out)
            done(len(total.cycles), len(prompts))
    assert total is not None
    return total


def _continue(pair: Pair, plan: Plan, text: str, new_tokens: int, temperature: float, seed: int) -> str:
    from reference.decode import Decoder
    from reference.drafters import PlannedTree
    from reference.measuring import verifier_at
    from reference.random_streams import streams
    from reference.sampling import Sampling

    prompt = pair.tokenizer(text, add_special_tokens=False)["input_ids"]
    drafter, verifier = PlannedTree(plan.tree), verifier_at(temperature)
    decoder = Decoder(pair, drafter, Sampling(temperature), verifier, stop_tokens=pair.stop_tokens)
    return str(pair.tokenizer.decode(prompt + decoder.generate(prompt, new_tokens, *streams(pair, seed)).tokens))


def train(
    out: Annotated[Path, typer.Option("--out", help="Folder for the two model folders.")],
    work: Annotated[Path, typer.Option("--work", help="Folder for checkpoints; an interrupted run continues.")],
) -> None:
    """Train the shipped pair from nothing on the standard library's source (about an hour and a half)."""
    try:
        from reference.train.pair import build_pair
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("reference.train"):
            raise
        raise InputError("training is not part of the installed package: run `make pair` in a checkout") from error
    build_pair(out, work)
