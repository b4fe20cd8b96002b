"""Commands that run models: trace, profile, decode, generate, train."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectheory.cli.options import (
    SHIPPED,
    SHIPPED_PROMPTS,
    Count,
    Json,
    PairOptions,
    PromptOptions,
    Seed,
    Skip,
    Temperature,
)
from spectheory.cli.output import Output, errors, progress, require_free, show, warn
from spectheory.core.acceptance import MIN_TRIALS, TooFewTrialsError
from spectheory.core.errors import InputError
from spectheory.core.provenance import Provenance
from spectheory.planning.planner import Plan
from spectheory.results.tally import Tally

if TYPE_CHECKING:
    from reference.models import Pair

PlanFile = Annotated[Path, typer.Option("--plan", help="The plan to verify with.")]
PlanTemperature = Annotated[
    float | None, typer.Option("--temperature", help="0 is greedy [default: temperature of the plan's rates]")
]


@contextmanager
def long_enough(most: int, needed: int, repair: str) -> Iterator[None]:
    """Around a trace of at most `most` positions: says which options give the `needed` ones to count rates from.

    A trace that cannot have them is refused before it is recorded.
    """
    repair = f"{needed} are needed to count rates from: {repair}"
    if 0 < most < needed:
        raise InputError(f"the trace can have {most} positions at most, {repair}")
    try:
        yield
    except TooFewTrialsError as error:
        raise InputError(f"the trace has {error.trials} positions that count, {repair}") from None


def warn_of_mismatches(plan: Plan, pair: Pair, temperature: float) -> None:
    """Print a warning for each thing in which the plan's rates and times differ from the decoding."""
    from spectheory.results.comparison import mismatches

    for said in mismatches(plan, Provenance("decoding", temperature=temperature, **pair.stamp)):
        warn(said)


def trace(
    out: Annotated[Path, typer.Option("--out", help="Folder for the trace; an interrupted one is continued.")],
    pair: PairOptions = SHIPPED,
    skip: Skip = 0,
    count: Count = 40,
    text: PromptOptions = SHIPPED_PROMPTS,
    temperature: Temperature = 0.0,
    top_k: Annotated[int, typer.Option("--top-k", help="Candidates of the draft at each position.")] = 16,
    batch: Annotated[int, typer.Option("--batch", help="Prompts run together; one Parquet file each.")] = 8,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", help="Count only where cycles with this plan start; a finished trace is not recorded again."
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Record the rank of the target's token among the draft's candidates, and reduce it to acceptance rates."""
    from reference import tracing
    from spectheory.report.terminal import acceptance_table

    require_free([plan], Output(out / "acceptance.json", "acceptance"))
    policy = None if plan is None else Plan.load(plan)
    with long_enough(count * text.new_tokens, MIN_TRIALS, "raise --count or --new-tokens, in a new folder"):
        models = pair.load()
        rows = text.encoded(models, skip, count)
        settings = tracing.TraceSettings(
            dataset=text.dataset,
            temperature=temperature,
            top_k=top_k,
            new_tokens=text.new_tokens,
            batch=batch,
            seed=seed,
        )
        with progress("trace") as done:
            tracing.record_trace(models, rows, settings, out, done)
        counted = None if policy is None else policy.tree
        acceptance = tracing.acceptance(out, min_trials=MIN_TRIALS, policy=counted)
    show(acceptance, acceptance_table(acceptance), as_json=as_json, out=out / "acceptance.json")


def profile(
    out: Annotated[Path, typer.Option("--out", help="File for the latency record.")],
    pair: PairOptions = SHIPPED,
    contexts: Annotated[
        str, typer.Option("--contexts", help="Tokens in the KV cache, comma-separated.")
    ] = "64,256,512",
    largest: Annotated[int, typer.Option("--largest", help="Largest forward; sizes are powers of two up to it.")] = 256,
    rounds: Annotated[int, typer.Option("--rounds", help="Timed forwards of each size.")] = 15,
    temperature: Temperature = 0.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure seconds per forward of 1, 2, 4, ... tokens for both models on this machine."""
    from reference.profiling import profile as measure_latency
    from spectheory.report.terminal import latency_table

    require_free([], Output(out, "latency"))
    if largest < 1:
        raise InputError(f"--largest must be at least 1, got {largest}")
    try:
        sizes = [int(size) for size in contexts.split(",")]
    except ValueError:
        raise InputError(f"--contexts must be whole numbers with commas between them, got {contexts!r}") from None
    with progress("profile") as done:
        latency = measure_latency(
            pair.load(),
            tokens=[2**i for i in range(largest.bit_length())],
            contexts=sizes,
            rounds=rounds,
            temperature=temperature,
            seed=seed,
            done=done,
        )
    show(latency, latency_table(latency), as_json=as_json, out=out)


def decode(
    plan: PlanFile,
    pair: PairOptions = SHIPPED,
    skip: Annotated[int, typer.Option("--skip", min=0, help="Prompts to skip: those that `trace` takes.")] = 40,
    count: Count = 20,
    text: PromptOptions = SHIPPED_PROMPTS,
    temperature: PlanTemperature = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File for the tally.")] = None,
    as_json: Json = False,
) -> None:
    """Decode prompts with a plan on real models and compare measured tau with predicted tau.

    Above temperature 0 the naive solver verifies, TopDown(Naive()), whose acceptance `trace` records.
    """
    from spectheory.report.terminal import comparison_table
    from spectheory.results.comparison import compare

    require_free([plan], Output(out, "tally"))
    planned = Plan.load(plan)
    temperature = _temperature(planned, temperature)
    from reference.measuring import require_cycle

    require_cycle(text.new_tokens)
    models = pair.load()
    warn_of_mismatches(planned, models, temperature)
    rows = text.encoded(models, skip, count)
    settings = {"new_tokens": text.new_tokens, "temperature": temperature, "seed": seed}
    tally = measured(models, planned, rows, out, skip, **settings)
    show(tally, comparison_table(compare(planned, None, tally)), as_json=as_json, out=out)


def generate(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to continue.")],
    plan: PlanFile,
    pair: PairOptions = SHIPPED,
    new_tokens: Annotated[int, typer.Option("--new-tokens", help="Tokens to generate.")] = 128,
    temperature: PlanTemperature = None,
    seed: Seed = 0,
) -> None:
    """Continue a text with a plan on real models and print it."""
    if not text:
        raise InputError("TEXT is empty: give at least one character to continue")
    planned = Plan.load(plan)
    temperature = _temperature(planned, temperature)
    models = pair.load()
    warn_of_mismatches(planned, models, temperature)
    print(_continued(models, planned, text, new_tokens, temperature, seed))


def _temperature(plan: Plan, named: float | None) -> float:
    return (plan.acceptance.temperature or 0.0) if named is None else named


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
                stamp = tally.provenance
                total = replace(tally, provenance=stamp.replace(settings=stamp.settings | {"skip": skip}))
            else:
                total += tally
            if out is not None:
                total.save(out)
            done(len(total.cycles), len(prompts))
    assert total is not None
    return total


def _continued(pair: Pair, plan: Plan, text: str, new_tokens: int, temperature: float, seed: int) -> str:
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
