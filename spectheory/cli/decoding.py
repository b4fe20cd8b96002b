"""The commands that decode with real models: `decode` with one plan, `compare` for many decoders."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import SHIPPED, SHIPPED_PROMPTS, Count, Json, PairOptions, PromptOptions, Seed, numbers
from spectheory.cli.output import console, errors, progress, require_free, show
from spectheory.core.errors import InputError
from spectheory.core.files import owned
from spectheory.planning.schedule_record import Schedule

SkipTraced = Annotated[
    int, typer.Option("--skip", min=0, help="Number of prompts to skip; the default skips the prompts of `trace`.")
]
Traced = Annotated[
    int,
    typer.Option(
        "--skip", min=1, help="Number of prompts that are traced for the predictions; those after are decoded."
    ),
]
ONLY = "Run only decoders with this text in their name, or with one of several texts: chain|Goose; and plain decoding."


def decode(
    plan: Annotated[Path, typer.Option(help="Plan to decode with, from `spectheory plan`.")],
    text: Annotated[str, typer.Argument(help="Text to continue, in place of prompts.", show_default=False)] = "",
    pair: PairOptions = SHIPPED,
    skip: SkipTraced = 40,
    count: Count = 20,
    source: PromptOptions = SHIPPED_PROMPTS,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the tally, counts and times. Repeat the command to continue an interrupted run."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Decode with a plan on real models: the text, and tokens per target call and seconds beside the prediction."""
    from reference.measuring import decoded, require_cycle
    from reference.prompts import encode_prompts
    from spectheory.report.tables import comparison_rows
    from spectheory.results.plan_comparison import compare as compared

    require_free([plan], out, force=True)
    planned = Schedule.load(plan)
    require_cycle(source.new_tokens)
    if text != text.encode(errors="ignore").decode():
        raise InputError("TEXT is not text in UTF-8: convert it to UTF-8")
    sources = () if text else source.sources(skip, count)
    files = pair.open()
    if text:
        rows, skip = encode_prompts(files, [text], new_tokens=source.new_tokens), 0
    else:
        rows = source.encoded(files, skip, count)
    models = files.load()

    def watch(request: int, written: object, divergence: object) -> None:
        if divergence:
            errors.print(f"prompt {skip + request}: {divergence}")
        if text and not as_json:
            print(models.tokenizer.decode(rows[0] + written.tokens, skip_special_tokens=True))  # type: ignore[attr-defined]

    with nullcontext() if out is None else owned(out), progress("decode") as done:
        settings = {"new_tokens": source.new_tokens, "seed": seed, "skip": skip, "sources": sources}
        tally = decoded(models, planned, rows, **settings, out=out, watch=watch, done=done)
    show(tally, comparison_rows(compared(planned, tally)), as_json=as_json, out=out)


def compare(
    out: Annotated[
        Path, typer.Option(help="Folder for traces and the record. Repeat the command to continue an interrupted run.")
    ],
    temperatures: Annotated[str, typer.Option(help="Temperatures, comma-separated; 0 is greedy decoding.")] = "0,1",
    only: Annotated[str, typer.Option(help=ONLY)] = "",
    pair: PairOptions = SHIPPED,
    skip: Traced = 40,
    count: Count = 16,
    source: PromptOptions = SHIPPED_PROMPTS,
    rounds: Annotated[int, typer.Option(help="Times that each prompt is decoded; the median time counts.")] = 1,
    seed: Seed = 0,
) -> None:
    """Compare all drafters and verifiers, and transformers' own decoding: tau predicted and measured, tokens a second.

    Set the number of CPU threads with the environment variable OMP_NUM_THREADS.
    """
    from reference.compare import RECORD, CompareSettings
    from reference.compare import compare as run
    from spectheory.report.comparison import decoder_rows, decoder_words

    require_free([], out / RECORD, force=True)
    degrees = tuple(numbers("--temperatures", temperatures, float))
    settings = CompareSettings(degrees, source.new_tokens, rounds, seed, only)
    source.read(skip, count, least_skip=1)
    sources = source.sources(0, skip) + source.sources(skip, count)
    files = pair.open(alone=True)
    rows = source.encoded(files, 0, skip), source.encoded(files, skip, count, least_skip=1)
    models = files.load()
    with progress("compare") as done:
        found = run(out, models, *rows, settings, sources=sources, done=done)
    show(found, decoder_rows(found), *decoder_words(found), as_json=False)
    console.print(f"wrote {out}")
