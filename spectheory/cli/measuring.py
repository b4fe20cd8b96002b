"""Commands that run models: `trace`, `profile`, `decode` and `generate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
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
    Temperature,
    numbers,
)
from spectheory.cli.output import errors, progress, require_free, show, warn
from spectheory.core.acceptance import MIN_TRIALS, TooFewTrialsError
from spectheory.core.errors import InputError
from spectheory.core.files import owned
from spectheory.core.provenance import Provenance
from spectheory.planning.schedule_record import Schedule
from spectheory.results.tally import Tally

if TYPE_CHECKING:
    from reference.models import Pair
    from reference.sampling import Sampling

PlanFile = Annotated[Path, typer.Option("--plan", help="Plan to decode with, from `spectheory plan`.")]
PlanTemperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        help="Sampling temperature; 0 is greedy decoding.",
        show_default="temperature of the plan's rates",
    ),
]
TOP_K = "Sample only from this many most probable tokens."
TOP_P = "Sample only from the fewest most probable tokens whose probabilities sum to this or more."
TopK = Annotated[int | None, typer.Option("--top-k", help=TOP_K, show_default="all")]
TopP = Annotated[float, typer.Option("--top-p", help=TOP_P)]
PlanTopK = Annotated[int | None, typer.Option("--top-k", help=TOP_K, show_default="top-k of the plan's rates")]
PlanTopP = Annotated[float | None, typer.Option("--top-p", help=TOP_P, show_default="top-p of the plan's rates")]


@contextmanager
def long_enough(most: int, needed: int, repair: str) -> Iterator[None]:
    """Context manager for a trace: it refuses a trace with fewer than `needed` positions.

    If even the largest possible number of positions, `most`, is too small, it refuses the trace before it is recorded.
    `repair` ends the message: it says which options to change.
    """
    repair = f"but acceptance rates need at least {needed}: {repair}"
    if 0 < most < needed:
        raise InputError(f"the trace can have at most {most} positions, {repair}")
    try:
        yield
    except TooFewTrialsError as error:
        raise InputError(f"the trace has only {error.trials} usable positions, {repair}") from None


def warn_of_mismatches(plan: Schedule, pair: Pair, sampling: dict[str, Any]) -> None:
    """Print a warning for each known difference between the plan and the decoding.

    `sampling` has the fields of a provenance that name the sampling.
    """
    from spectheory.results.comparison import mismatches

    for said in mismatches(plan, Provenance("decoding", **sampling, **pair.stamp)):
        warn(said)


def trace(
    out: Annotated[
        Path, typer.Option(help="Folder for the trace. To continue an interrupted trace, repeat the command.")
    ],
    pair: PairOptions = SHIPPED,
    count: Count = 40,
    text: PromptOptions = SHIPPED_PROMPTS,
    temperature: Temperature = 0.0,
    top_k: TopK = None,
    top_p: TopP = 1.0,
    candidates: Annotated[
        int,
        typer.Option(
            help="Number of the draft's candidates at each position. The target's token is ranked among them."
        ),
    ] = 16,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="Count rates only at positions where a cycle of decoding with this plan would start. A finished trace "
            "is reused."
        ),
    ] = None,
) -> None:
    """Record how the draft ranks each token of the target's text, and compute acceptance rates from it."""
    from reference import tracing
    from spectheory.report.tables import acceptance_rows

    require_free([plan], out / "acceptance.json", force=True)
    policy = None if plan is None else Schedule.load(plan)
    with long_enough(count * text.new_tokens, MIN_TRIALS, "raise --count or --new-tokens, in a new folder"):
        settings = tracing.TraceSettings(
            dataset=text.dataset,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            candidates=candidates,
            new_tokens=text.new_tokens,
        )
        text.read(0, count)
        models = pair.load()
        rows = text.encoded(models, 0, count)
        with progress("trace") as done:
            tracing.record_trace(models, rows, settings, out, done)
        counted = None if policy is None else policy.tree
        acceptance = tracing.acceptance(out, min_trials=MIN_TRIALS, policy=counted)
    show(acceptance, acceptance_rows(acceptance), as_json=False, out=out / "acceptance.json")


def profile(
    out: Annotated[Path, typer.Option(help="File for the latency record.")],
    pair: PairOptions = SHIPPED,
    contexts: Annotated[
        str, typer.Option(help="Context lengths to time, in tokens in the KV cache, comma-separated, increasing.")
    ] = "64,256,512",
    largest: Annotated[
        int,
        typer.Option(
            help="Maximum number of tokens in a timed forward. A tree of n nodes takes a forward of n + 1 tokens."
        ),
    ] = 257,
    rounds: Annotated[int, typer.Option(help="Number of times that each forward is timed.")] = 15,
    temperature: Temperature = 0.0,
    as_json: Json = False,
) -> None:
    """Measure how long forwards of 1, 2, 3, ... tokens take on this machine, for the target and for the draft."""
    from reference.profiling import check_settings, forward_sizes
    from reference.profiling import profile as measure_latency
    from reference.sampling import Sampling
    from spectheory.report.tables import latency_rows

    require_free([], out)
    if largest < 1:
        raise InputError(f"--largest must be at least 1, got {largest}")
    sizes = numbers("--contexts", contexts, int)
    check_settings(forward_sizes(largest), sizes, rounds, Sampling(temperature))
    with progress("profile") as done:
        latency = measure_latency(
            pair.load(),
            tokens=forward_sizes(largest),
            contexts=sizes,
            rounds=rounds,
            temperature=temperature,
            done=done,
        )
    show(latency, latency_rows(latency), as_json=as_json, out=out)


def decode(
    plan: PlanFile,
    pair: PairOptions = SHIPPED,
    skip: Annotated[
        int,
        typer.Option(
            min=0, help="Number of prompts to skip at the start of the file. The default skips the prompts of `trace`."
        ),
    ] = 40,
    count: Count = 20,
    text: PromptOptions = SHIPPED_PROMPTS,
    temperature: PlanTemperature = None,
    top_k: PlanTopK = None,
    top_p: PlanTopP = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the tally (the counts and times of the run). To continue an interrupted run, repeat the "
            "command."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Decode prompts with a plan on real models, and compare measured with predicted tokens per target call.

    Above temperature 0 the verifier is the plan's, or TopDown(Naive()) for a plan that names none.
    """
    from spectheory.report.tables import comparison_rows
    from spectheory.results.comparison import compare

    require_free([plan], out, force=True)
    planned = Schedule.load(plan)
    from reference.measuring import require_cycle

    require_cycle(text.new_tokens)
    sampling = _sampling(planned, temperature, top_k, top_p)
    text.read(skip, count)
    models = pair.load()
    warn_of_mismatches(planned, models, sampling.stamp)
    rows = text.encoded(models, skip, count)
    settings = {"new_tokens": text.new_tokens, **asdict(sampling), "seed": seed}
    tally = measured(models, planned, rows, out, skip, **settings)
    show(tally, comparison_rows(compare(planned, None, tally)), as_json=as_json, out=out)


def generate(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to continue.")],
    plan: PlanFile,
    pair: PairOptions = SHIPPED,
    new_tokens: Annotated[
        int, typer.Option(help="Maximum number of tokens to generate; a stop token ends the text earlier.")
    ] = 128,
    temperature: PlanTemperature = None,
    top_k: PlanTopK = None,
    top_p: PlanTopP = None,
    seed: Seed = 0,
) -> None:
    """Continue a text with real models that decode with a plan, and print the result."""
    if not text:
        raise InputError("TEXT is empty: give at least one character to continue")
    if text != text.encode(errors="ignore").decode():
        raise InputError("TEXT is not text in UTF-8: convert it to UTF-8")
    if new_tokens < 1:
        raise InputError(f"--new-tokens must be at least 1, got {new_tokens}")
    planned = Schedule.load(plan)
    sampling = _sampling(planned, temperature, top_k, top_p)
    models = pair.load()
    warn_of_mismatches(planned, models, sampling.stamp)
    from reference.decode import Decoder
    from reference.drafters import PlannedTree
    from reference.measuring import verifier_at
    from reference.random_streams import streams

    prompt = models.tokenizer(text, add_special_tokens=False)["input_ids"]
    verifier = verifier_at(sampling.temperature, planned)
    decoder = Decoder(models, PlannedTree(planned.tree), sampling, verifier, stop_tokens=models.stop_tokens)
    print(models.tokenizer.decode(prompt + decoder.generate(prompt, new_tokens, *streams(models, seed)).tokens))


def _sampling(plan: Schedule, temperature: float | None, top_k: int | None, top_p: float | None) -> Sampling:
    """The sampling of the plan's rates, with what the options name in its place.

    Raises:
        InputError: top-k or top-p are named for temperature 0, or a value is out of range.
    """
    from reference.sampling import Sampling, require_drawing

    known = Sampling.of(plan.acceptance.provenance)
    named = known.temperature if temperature is None else temperature
    if named == 0:
        known = Sampling()
    sampling = Sampling(named, known.top_k if top_k is None else top_k, known.top_p if top_p is None else top_p)
    require_drawing(sampling)
    return sampling


def measured(
    pair: Pair,
    plan: Schedule,
    prompts: list[list[int]],
    out: Path | None,
    skip: int,
    **settings: Any,
) -> Tally:
    """Decode every prompt with the plan and plainly, except those that the tally in `out` counts already.

    After each prompt, the tally so far is saved to `out`. `skip` is the number of the first prompt in its file, counted
    from 0.
    """
    from reference.measuring import measure, verifier_at

    def say(request: int, where: object) -> None:
        errors.print(f"prompt {skip + request}: {where}")

    with nullcontext() if out is None else owned(out), progress("decode") as done:
        total = Tally.load(out) if out is not None and out.exists() else None
        verifier = verifier_at(settings["temperature"], plan)
        run = measure(pair, plan.tree, prompts, verifier=verifier, **settings, skip=skip, so_far=total, diverged=say)
        earlier = 0 if total is None else len(total.cycles)
        done(0, len(prompts) - earlier)
        for total in run:
            if out is not None:
                total.save(out)
            done(len(total.cycles) - earlier, len(prompts) - earlier)
    assert total is not None
    return total
