"""The commands `trace` and `profile`, which run models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import SHIPPED, SHIPPED_PROMPTS, Count, PairOptions, PromptOptions, Temperature, numbers
from spectheory.cli.output import progress, require_free, show
from spectheory.core.acceptance import MIN_TRIALS
from spectheory.core.errors import InputError

TOP_K = "Sample only from this many most probable tokens."
TOP_P = "Sample only from the fewest most probable tokens whose probabilities sum to this or more."
TopK = Annotated[int | None, typer.Option("--top-k", help=TOP_K, show_default="all")]
TopP = Annotated[float, typer.Option("--top-p", help=TOP_P)]


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
) -> None:
    """Record how the draft ranks each token of the target's text, and compute acceptance rates from it."""
    from reference import tracing
    from spectheory.report.tables import acceptance_rows

    require_free([], out / "acceptance.json", force=True)
    most = count * text.new_tokens
    if 0 < most < MIN_TRIALS:
        raise InputError(
            f"the trace can have at most {most} positions, but acceptance rates need at least {MIN_TRIALS}: raise "
            "--count or --new-tokens"
        )
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    settings = tracing.TraceSettings(dataset=text.dataset, new_tokens=text.new_tokens, **sampling)
    sources = text.sources(0, count)
    files = pair.open()
    rows = text.encoded(files, 0, count)
    models = files.load()
    with progress("trace") as done:
        tracing.record_trace(models, rows, settings, out, done, sources=sources)
    acceptance = tracing.acceptance(out, min_trials=MIN_TRIALS)
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
            pair.open().load(),
            tokens=forward_sizes(largest),
            contexts=sizes,
            rounds=rounds,
            temperature=temperature,
            done=done,
        )
    show(latency, latency_rows(latency), as_json=False, out=out)
