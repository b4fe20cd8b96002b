"""The queue: `python -m benchmarks.gpu` in the root of the checkout, which need not be installed.

It runs the steps in order of worth until the minutes are over, and goes on where an earlier call was interrupted. With
--dry-run every step takes seconds, with a few texts on the CPU, and measures nothing.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from transformers.utils import logging

from benchmarks.gpu.graphs import graphs
from reference.compare import RECORD, CompareSettings
from reference.compare import compare as run_compare
from reference.models import DRAFT, TARGET, Pair, load_pair
from reference.prompts import HELD_OUT, encode_prompts, load_prompts
from spectheory.cli.main import in_one_line
from spectheory.core.errors import InputError

STEPS = ("graphs", "compare")
MOST_PROMPT_TOKENS = 256
TRACED_SHARE = 60
"""Percentage of the prompts that are traced; the others are decoded."""
say = functools.partial(print, flush=True)


class _TimeIsUpError(Exception):
    """The minutes of the queue are over."""


def compare(folder: Path, pair: Pair, rows: list[list[int]], settings: CompareSettings, ends: float) -> None:
    """Compare decoders of a pair; a share of the prompts is traced."""

    def done(finished: int, total: int) -> None:
        if time.perf_counter() > ends:
            raise _TimeIsUpError(f"compare: {finished} of {total} texts, and whole prompts are kept")

    traced = TRACED_SHARE * len(rows) // 100
    run_compare(folder, pair, rows[:traced], rows[traced:], settings, done=done)
    say(f"wrote {folder / RECORD}")


def run(
    steps: Annotated[str, typer.Argument(help="Steps of the queue.")] = "all",
    out: Annotated[Path, typer.Option(envvar="OUT", help="Folder for the JSON records.")] = Path("build/gpu"),
    target: Annotated[Path, typer.Option(help="Target.")] = TARGET,
    draft: Annotated[Path, typer.Option(help="Draft.")] = DRAFT,
    prompts: Annotated[Path, typer.Option(help="Prompts, JSON Lines.")] = HELD_OUT,
    count: Annotated[int, typer.Option(min=5, help="Number of prompts.")] = 40,
    dtype: Annotated[str, typer.Option(help="Number type; in float32 greedy texts are equal.")] = "bfloat16",
    temperatures: Annotated[str, typer.Option(help="Temperatures of compare, comma-separated.")] = "0,1",
    only: Annotated[str, typer.Option(help="Decoders of compare: texts in their names, separated by |.")] = "",
    new_tokens: Annotated[int, typer.Option(help="Length of each text.")] = 64,
    minutes: Annotated[float, typer.Option(help="Minutes after which nothing new is begun.")] = 9,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="A few texts on the CPU; measures nothing.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random stream.")] = 0,
) -> None:
    """Run the steps, comma-separated or all; the same command continues an interrupted run."""
    wanted = STEPS if steps == "all" else tuple(steps.split(","))
    if unknown := [step for step in wanted if step not in STEPS]:
        raise InputError(f"steps must be among {', '.join(STEPS)}, got {unknown[0]!r:.60}")
    logging.disable_progress_bar()
    device, name, ends = "cuda", "dry run", time.perf_counter() + 60 * minutes
    if dry_run:
        torch.set_num_threads(1)  # tiny models gain nothing from threads, and on a busy machine they wait
        device, count, new_tokens, only = "cpu", 16, 32, "chain of 5, greedy|chain of 5, naive"
    elif torch.cuda.is_available():
        name = torch.cuda.get_device_name()
    else:
        raise InputError(
            f"no CUDA device: torch {torch.__version__} sees none. Run this on a machine with a GPU, or add --dry-run, "
            "which goes through the same steps with a few texts on the CPU and measures nothing"
        )
    say(f"{', '.join(wanted)} on {name}, up to {minutes:g} minutes")
    pair = load_pair(target, draft, device=device, dtype=getattr(torch, dtype))
    rows = encode_prompts(pair, load_prompts(prompts, count), MOST_PROMPT_TOKENS, new_tokens=new_tokens)
    try:
        for step in wanted:
            if step == "graphs":
                few, length = (1, 12) if dry_run else (5, new_tokens)
                graphs(out / "graphs.json", pair, name, rows[:few], length, seed)
            else:
                degrees = tuple(map(float, temperatures.split(",")))
                compare(out / "compare", pair, rows, CompareSettings(degrees, new_tokens, 1, seed, only), ends)
    except _TimeIsUpError as error:
        say(str(error))


if __name__ == "__main__":
    app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)
    app.command()(in_one_line(run))
    app(prog_name="python -m benchmarks.gpu")
