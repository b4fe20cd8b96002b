"""The command `demo`: the whole loop on one pair."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from spectheory.cli.options import SHIPPED, PairOptions, PromptOptions, Seed
from spectheory.cli.output import console, progress, require_free
from spectheory.core.acceptance import Acceptance
from spectheory.core.provenance import model_name

NEW_TOKENS = 128


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the records. What is there is not measured again.")] = Path(
        "build/demo"
    ),
    pair: PairOptions = SHIPPED,
    rounds: Annotated[int, typer.Option(min=1, help="Number of times that each forward is timed.")] = 4,
    traced: Annotated[int, typer.Option(min=1, help="Number of prompts to trace for the rates.")] = 20,
    count: Annotated[int, typer.Option(min=1, help="Number of prompts to decode, after the traced ones.")] = 5,
    seed: Seed = 0,
) -> None:
    """Measure a pair on this machine, plan, decode, compare with the prediction and with all other decoders."""
    from reference.compare import RECORD, CompareSettings, compare
    from reference.measuring import decoded
    from reference.planning_loop import RATES, measured_plan
    from spectheory.report.comparison import decoder_rows, decoder_words
    from spectheory.report.tables import acceptance_rows, comparison_rows, latency_rows
    from spectheory.report.terminal import plan_summary, tree_drawing
    from spectheory.results.plan_comparison import compare as compared

    require_free([], out / RECORD, force=True)
    started, files, latency = time.perf_counter(), pair.open(), None
    console.print(f"target {model_name(files.names[0])}, draft {model_name(files.names[1])}")
    prompts = PromptOptions().encoded(files, 0, traced + count)
    models = files.load()
    rows, settings = (prompts[:traced], prompts[traced:]), {"new_tokens": NEW_TOKENS, "seed": seed}
    for temperature in (0.0, 1.0):
        folder = out / f"temperature-{temperature:g}"
        heading = f"sampling at temperature {temperature:g}" if temperature else "greedy decoding"
        console.rule(heading)
        with progress("trace, profile, plan, decode") as done:
            measuring = {"temperature": temperature, "rounds": rounds, "latency": latency}
            chosen, _ = measured_plan(models, rows[0], folder, **settings, **measuring, done=done)
            chosen.save(folder / "plan.json")
            tally = decoded(models, chosen, rows[1], out=folder / "measured.json", skip=traced, done=done, **settings)
        if latency is None:
            console.print(latency_rows(chosen.latency))
        latency = latency or chosen.latency
        console.print(acceptance_rows(Acceptance.load(folder / RATES)), plan_summary(chosen))
        drawing = tree_drawing(chosen.tree, chosen.reach, chosen.reach_source)
        console.print(drawing, comparison_rows(compared(chosen, tally)))
    console.rule("all decoders")
    with progress("compare") as done:
        found = compare(out, models, *rows, CompareSettings((0.0,), **settings), done=done)
    console.print(decoder_rows(found), *decoder_words(found), sep="\n")
    print(f"wrote the records into {out}; {time.perf_counter() - started:.0f} s in all")
