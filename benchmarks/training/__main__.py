"""Train drafts by the papers' losses, compare them, and keep what was found in this repository.

python -m benchmarks.training --work FOLDER --out PAGE
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from transformers.utils import logging

from benchmarks.training.comparing import compare
from benchmarks.training.decoding import decoded
from benchmarks.training.page import document
from benchmarks.training.records import TEMPERATURES, keep, kept, timing
from benchmarks.training.running import finished, pool, train_all, write_texts
from spectheory.core.files import write_whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. After an interruption it continues where it stopped."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument(
        "--work",
        type=Path,
        help="folder for texts, trainings and comparisons, which need 4 GB of disk; without it nothing is trained: the "
        "page is written from the records of earlier trainings",
    )
    parser.add_argument("--out", type=Path, help="file for the page; by default it is printed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds with which each row is trained")
    parser.add_argument(
        "--processes", type=int, default=2, help="number of trainings that run at the same time, one core each"
    )
    parser.add_argument(
        "--trained", action="store_true", help="train nothing; compare what is already trained in the work folder"
    )
    chosen = parser.parse_args(arguments)
    logging.disable_progress_bar()
    if chosen.work is not None:
        _measure(chosen.work, chosen.seeds, chosen.processes, chosen.trained)
    page = document(*kept(), timing(), decoded())
    print(page) if chosen.out is None else write_whole(chosen.out, page)


def _measure(work: Path, seeds: Sequence[int], processes: int, trained: bool) -> None:
    """Train and compare."""
    if not trained:
        write_texts(work, processes, print)
        train_all(work, seeds, processes, print)
    drafts = finished(work, seeds)
    print(f"comparing {len(drafts)} rows with the independent draft")
    with pool(processes) as several:
        found = several.map(partial(compare, work, drafts), TEMPERATURES)
        keep(dict(zip(TEMPERATURES, found, strict=True)), drafts)


if __name__ == "__main__":
    main()
