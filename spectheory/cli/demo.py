"""The command `demo`: the whole loop on one model or pair."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectheory.cli.options import SHIPPED, SHIPPED_PROMPTS, PairOptions, PromptOptions, Seed
from spectheory.cli.output import console, progress, require_free
from spectheory.core.acceptance import Acceptance
from spectheory.core.files import write_whole
from spectheory.core.provenance import model_name

if TYPE_CHECKING:
    from spectheory.planning.schedule_record import Schedule
    from spectheory.results.tally import Tally

PAGE, ROUNDS = "comparison.html", 4


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the records. What is there is not measured again.")] = Path(
        "build/demo"
    ),
    pair: PairOptions = SHIPPED,
    source: PromptOptions = SHIPPED_PROMPTS,
    traced: Annotated[int, typer.Option(min=1, help="Number of prompts to trace for the predictions.")] = 20,
    count: Annotated[int, typer.Option(min=1, help="Number of prompts to decode, after the traced ones.")] = 5,
    seed: Seed = 0,
) -> None:
    """Is speculation worth it for a model, on this machine and these prompts? Trace, profile, plan, decode and compare.

    A target without a draft is decoded with the drafters that need no model. Of fewer prompts, four in five are traced.
    """
    from reference.compare import RECORD, CompareSettings, compare
    from reference.measuring import decoded
    from reference.planning_loop import measured_plan
    from reference.prompts import HELD_OUT, load_prompts
    from spectheory.report.comparison import comparison_page, decoder_rows, decoder_words

    require_free([], out / RECORD, force=True)
    started, files, latency = time.perf_counter(), pair.open(alone=True), None
    if traced + count > (there := len(load_prompts(source.prompts or HELD_OUT))) > 1:
        traced = max(1, there * 4 // 5)
        count = there - traced
    names = f"target: {model_name(files.names[0])}, draft: {model_name(files.names[1])}"
    console.print(f"{names}; {traced} prompts are traced, {count} decoded")
    prompts = source.encoded(files, 0, traced + count)
    sources = source.sources(0, traced) + source.sources(traced, count)
    models, said = files.load(), []
    rows, settings = (prompts[:traced], prompts[traced:]), {"new_tokens": source.new_tokens, "seed": seed}
    for temperature in (0.0, 1.0) if models.draft else ():
        folder = out / f"temperature-{temperature:g}"
        heading = f"sampling at temperature {temperature:g}" if temperature else "greedy decoding"
        console.rule(heading)
        with progress("trace, profile, plan") as done:
            measuring = {"temperature": temperature, "rounds": ROUNDS, "latency": latency, "sources": sources[:traced]}
            chosen, _ = measured_plan(models, rows[0], folder, **settings, **measuring, done=done)
        chosen.save(folder / "plan.json")
        with progress("decode") as done:
            kept = {"out": folder / "measured.json", "skip": traced, "sources": sources[traced:]}
            tally = decoded(models, chosen, rows[1], **kept, done=done, **settings)
        said.append(f"{heading[0].upper()}{heading[1:]}, planned: {_show(chosen, tally, folder, latency is None)}")
        latency = latency or chosen.latency
    console.rule("all decoders")
    degrees = (0.0,) if models.draft else (0.0, 1.0)
    with progress("compare") as done:
        found = compare(out, models, *rows, CompareSettings(degrees, **settings), sources=sources, done=done)
    write_whole(out / PAGE, comparison_page(found))
    console.print(decoder_rows(found), *decoder_words(found), *said, sep="\n")
    print(f"wrote {out / PAGE} and the records; {time.perf_counter() - started:.0f} s in all")


def _show(chosen: Schedule, tally: Tally, folder: Path, first: bool) -> str:
    """Print a plan and what it was made from, the times of forwards only the first time; compare it with the tally."""
    from reference.planning_loop import RATES
    from spectheory.report.answer import screen
    from spectheory.report.tables import acceptance_rows, comparison_rows, latency_rows
    from spectheory.results.plan_comparison import compare

    if first:
        console.print(latency_rows(chosen.latency))
    console.print(acceptance_rows(Acceptance.load(folder / RATES)), *screen(chosen, full=True))
    compared = compare(chosen, tally)
    console.print(comparison_rows(compared))
    return compared.verdict
