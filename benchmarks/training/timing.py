"""Where the time of a training goes, and how long trained drafts take to draft.

python -m benchmarks.training.timing --work FOLDER: the folder of `benchmarks.training`, with the trainings of seed 0.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as profiled
from transformers.utils import logging

from benchmarks.training.records import FOLDER, TIMING
from benchmarks.training.rows import CHAIN, INDEPENDENT, ROWS, Row
from benchmarks.training.running import begin, recipe, run_folder
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.meter import Meter
from reference.models import DRAFT, TARGET, load_pair
from reference.prompts import encode_prompts, load_prompts
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.train.head import train_head
from reference.train.own_texts import OwnTexts
from spectheory import Provenance, Tree
from spectheory.core.files import write_whole
from spectheory.verify import Greedy

TEXTS = 20
"""Texts of 64 tokens that are decoded with each draft."""
SECONDS = 6
"""About so many CPU seconds of each row's training are looked at."""
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
"""PyTorch's matrix products, forward and backward; other names for them call these."""
ATTENTION = "flash_attention_for_cpu"
"""Attention in one kernel, forward and backward: two matrix products with a softmax between them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and keep what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.timing", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="work folder of benchmarks.training")
    work = parser.parse_args(arguments).work
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    found: dict[str, dict[str, float]] = {}
    shares(work, ROWS[0])  # the first steps of a process wait for memory
    for row in ROWS:
        found[row.name] = shares(work, row)
        print(row.name, *(f"{name} {share:.1%}" for name, share in found[row.name].items()))
    drafts = {INDEPENDENT: drafting(DRAFT)} | {
        row.name: drafting(run_folder(work, row, 0)) for row in ROWS if row.name.startswith(CHAIN)
    }
    stamp = Provenance.now("benchmarks.training.timing", packages=("torch",))
    kept = {"machine": stamp.machine, "created": stamp.created, "versions": dict(stamp.versions)}
    write_whole(FOLDER / TIMING, json.dumps(kept | {"shares": found, "drafting": drafts}, indent=1) + "\n")


def drafting(draft: Path) -> float:
    """Median milliseconds that a draft's forwards for a chain of 4 take, over texts that are decoded with it."""
    pair = load_pair(TARGET, draft)
    decoder, seconds = Decoder(pair, PlannedTree(Tree.chain(4)), Sampling(0.0), Greedy()), []
    with Meter(pair) as meter:
        for prompt in encode_prompts(pair, load_prompts(count=TEXTS), 64):
            text = decoder.generate(prompt, 64, *streams(pair, 0))
            seconds.append(meter.since(text.started)[1] / len(text.accepted))
    return round(1000 * median(seconds), 3)


def shares(work: Path, row: Row) -> dict[str, float]:
    """The shares of the time of a row's training, with one thread, in matrix products and in attention."""
    steps = max(2, round(row.steps * SECONDS / 300))
    pair, config = begin(work, row, 0)
    texts, wanted = OwnTexts(work / "texts"), replace(recipe(row, 0), steps=steps)
    cpu = [ProfilerActivity.CPU]
    with TemporaryDirectory() as folder, profiled(activities=cpu) as seen, record_function("training"):
        train_head(pair, texts, Path(folder), wanted, config)
    events = seen.key_averages()
    whole = next(event.cpu_time_total for event in events if event.key == "training")
    products = sum(event.self_cpu_time_total for event in events if event.key in PRODUCTS)
    attention = sum(event.self_cpu_time_total for event in events if ATTENTION in event.key)
    return {"products": round(products / whole, 4), "attention": round(attention / whole, 4)}


if __name__ == "__main__":
    main()
