"""The whole loop on the shipped pair: measure, plan, decode, compare."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spectheory.cli.measuring import measured
from spectheory.cli.options import SHIPPED, PairOptions, PromptOptions, Seed
from spectheory.cli.output import console, progress, require_free
from spectheory.core.acceptance import Acceptance
from spectheory.core.files import write_whole
from spectheory.core.provenance import model_name
from spectheory.hardware.latency import Latency
from spectheory.results.comparison import compare

if TYPE_CHECKING:
    from reference.models import Pair
    from spectheory.report.page import Run

PROMPT_TOKENS, NEW_TOKENS = 64, 128


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the records and the page.")] = Path("build/demo"),
    pair: PairOptions = SHIPPED,
    rounds: Annotated[int, typer.Option(min=1, help="Number of times that each forward is timed.")] = 4,
    traced: Annotated[int, typer.Option(min=1, help="Number of prompts to trace for the rates.")] = 20,
    count: Annotated[int, typer.Option(min=1, help="Number of prompts to decode, after the traced ones.")] = 5,
    seed: Seed = 0,
) -> None:
    """Measure a pair on this machine, plan, decode, and compare the prediction with the measurement."""
    from spectheory.report.page import html_page
    from spectheory.report.tables import acceptance_rows, comparison_rows, latency_rows
    from spectheory.report.terminal import plan_summary, tree_drawing

    started, page = time.perf_counter(), out / "index.html"
    require_free([], page, force=True)
    models = pair.load()
    console.print(f"target {model_name(models.names[0])}, draft {model_name(models.names[1])}")
    page.unlink(missing_ok=True)  # the records beside an earlier page are written anew
    latency = _profile(models, out, rounds, seed)
    console.rule("latency")
    console.print(latency_rows(latency))
    runs = []
    for temperature in (0.0, 1.0):
        run = _loop(models, latency, out / f"temperature-{temperature:g}", temperature, (traced, count), seed)
        runs.append(run)
        chosen = run.comparison.plan
        console.rule(run.heading)
        console.print(
            acceptance_rows(run.acceptance),
            plan_summary(chosen),
            tree_drawing(chosen.tree, chosen.reach, chosen.reach_source),
        )
        console.print(comparison_rows(run.comparison))
    write_whole(page, html_page("spectheory demo", latency, runs))
    print(f"wrote {page} and the records beside it; {time.perf_counter() - started:.0f} s in all")


def _profile(pair: Pair, out: Path, rounds: int, seed: int) -> Latency:
    from reference.planning_loop import MAX_BUDGET
    from reference.profiling import forward_sizes, profile

    sizes = {"tokens": forward_sizes(2 * MAX_BUDGET + 1), "contexts": (PROMPT_TOKENS, PROMPT_TOKENS + NEW_TOKENS)}
    with progress("profile") as done:
        latency = profile(pair, **sizes, rounds=rounds, seed=seed, done=done)
    latency.save(out / "latency.json")
    return latency


def _loop(pair: Pair, latency: Latency, folder: Path, temperature: float, counts: tuple[int, int], seed: int) -> Run:
    """Trace some held-out prompts, plan, decode other prompts, and simulate. `counts` are the numbers of prompts."""
    import simulate
    from reference.part_files import ForeignFolderError
    from reference.planning_loop import RATES, TRACE, measured_plan
    from spectheory.report.page import Run

    prompts = PromptOptions(prompt_tokens=PROMPT_TOKENS).encoded(pair, 0, sum(counts))
    traced = counts[0]
    settings = {"new_tokens": NEW_TOKENS, "temperature": temperature, "seed": seed}
    heading = f"sampling at temperature {temperature:g}" if temperature else "greedy decoding"
    with progress("trace") as done:
        kept = {"dataset": "shipped held-out prompts", "latency": latency, "folder": folder, "done": done}
        try:
            chosen, _ = measured_plan(pair, prompts[:traced], **settings, **kept)
        except ForeignFolderError:  # an earlier demo, with other models, another seed or other prompts
            shutil.rmtree(folder / TRACE)
            chosen, _ = measured_plan(pair, prompts[:traced], **settings, **kept)
    chosen.save(folder / "plan.json")
    simulated = simulate.run(chosen, seed=seed)
    simulated.save(folder / "simulated.json")
    (folder / "measured.json").unlink(missing_ok=True)  # of an earlier plan
    tally = measured(pair, chosen, prompts[traced:], folder / "measured.json", traced, **settings)
    return Run(heading, Acceptance.load(folder / RATES), compare(chosen, simulated, tally))
