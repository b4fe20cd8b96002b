"""The command line: `python -m benchmarks.gpu` in the root of the checkout, which need not be installed."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer
from transformers.utils import logging

from benchmarks.gpu import reduce
from benchmarks.gpu import summary as summarising
from benchmarks.gpu.place import Place
from benchmarks.gpu.profile import DRY_GRID, MODELS, Grid
from benchmarks.gpu.profile import profile as run_profile
from spectheory.cli.main import in_one_line
from spectheory.report.markdown import put

Out = Annotated[Path, typer.Option("--out", envvar="OUT", help="Folder for the JSON records.")]
Work = Annotated[Path, typer.Option("--work", help="Folder for checkpoints, the trained pair and unfinished records.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Go through every step with tiny shapes on the CPU; measures nothing.")
]
Minutes = Annotated[float, typer.Option("--minutes", help="Minutes after which no new point or prompt is begun.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random stream.")]
RECORDS, WORK = Path("build/gpu/records"), Path("build/gpu/work")

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
say = functools.partial(print, flush=True)
logging.disable_progress_bar()


def _expected(dry_run: bool, minutes: float) -> str:
    return "seconds" if dry_run else f"up to {minutes:g} minutes; run the same command again for the rest"


@app.command()
@in_one_line
def profile(
    model: Annotated[str, typer.Argument(help=f"Model to time: {', '.join(MODELS)}, or all.")] = "all",
    out: Out = RECORDS,
    dry_run: DryRun = False,
    minutes: Minutes = 9,
    seed: Seed = 0,
) -> None:
    """Time forwards of real shapes with random weights in bfloat16; an interrupted run continues at the next point."""
    place = Place.found(dry_run=dry_run)
    names = MODELS if model == "all" else (model,)
    expected = "seconds" if dry_run else "4 minutes for a model of 8B and 3 for one of 1B on an H200"
    say(f"profile {', '.join(names)} on {place.name}: 140 points per model, {expected}")
    for name in names:
        grid = DRY_GRID if dry_run else Grid()
        run_profile(name, out, place, grid, seed=seed, seconds=60 * minutes / len(names), say=say)


@app.command()
@in_one_line
def train(out: Out = RECORDS, work: Work = WORK, dry_run: DryRun = False, seed: Seed = 0) -> None:
    """Train a pair of about 100 M and 8 M parameters on the machine's Python sources; continues from checkpoints."""
    from benchmarks.gpu.train import train as run

    place = Place.found(dry_run=dry_run)
    expected = "seconds" if dry_run else "3 minutes on an H200"
    say(f"train on {place.name}: target, then draft, {expected}; a killed run continues from its last 100 steps")
    say(f"wrote {run(out, work, place, seed=seed, say=say)}")


@app.command()
@in_one_line
def compare(
    out: Out = RECORDS, work: Work = WORK, dry_run: DryRun = False, minutes: Minutes = 8, seed: Seed = 0
) -> None:
    """Compare predicted with measured tau of the trained pair: every drafter, verifier and temperature."""
    from benchmarks.gpu.decode import compare as run

    place = Place.found(dry_run=dry_run)
    say(f"compare on {place.name}: {_expected(dry_run, minutes)}")
    say(f"wrote {run(out, work, place, seed=seed, seconds=60 * minutes, say=say)}")


@app.command()
@in_one_line
def clock(out: Out = RECORDS, work: Work = WORK, dry_run: DryRun = False, minutes: Minutes = 8, seed: Seed = 0) -> None:
    """Measure tokens per second of the trained pair by every decoder, and by transformers."""
    from benchmarks.gpu.decode import clock as run

    place = Place.found(dry_run=dry_run)
    say(f"clock on {place.name}: {_expected(dry_run, minutes)}")
    say(f"wrote {run(out, work, place, seed=seed, seconds=60 * minutes, say=say)}")


@app.command()
@in_one_line
def records(
    folder: Annotated[Path, typer.Argument(help="Folder with the records of `profile`.")],
    to: Annotated[Path, typer.Option("--to", help="Folder for latency records, for `spectheory schedule --measured`.")],
) -> None:
    """Write the profiles as `Latency` records, where `Latency.measured` finds them."""
    for path in reduce.write(folder, to):
        say(f"wrote {path}")


@app.command()
@in_one_line
def summary(
    folder: Annotated[Path, typer.Argument(help="Folder with the JSON records.")],
    page: Annotated[
        Path | None, typer.Option("--page", help="Markdown page to update, such as docs/results.md.")
    ] = None,
) -> None:
    """Print the records of a folder as Markdown, or put them into a page."""
    text = summarising.summary(folder)
    if page is None:
        say(text)
    else:
        put(page, "gpu summary", text)
        say(f"wrote {page}")


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.gpu")
