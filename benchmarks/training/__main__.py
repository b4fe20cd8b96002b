"""Train drafts by the papers' losses and compare them: python -m benchmarks.training --work FOLDER --out PAGE."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from transformers.utils import logging

from benchmarks.training.comparing import compare
from benchmarks.training.page import costs, document
from benchmarks.training.running import finished, train_all, write_texts
from spectheory.core.files import write_whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. After an interruption it continues where it stopped."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for texts, trainings and comparisons; they need 6 GB of disk"
    )
    parser.add_argument("--out", type=Path, help="file for the page; by default it is printed")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds; every row is trained once for each")
    parser.add_argument(
        "--processes", type=int, default=2, help="number of trainings that run at the same time, one core each"
    )
    parser.add_argument(
        "--trained", action="store_true", help="train nothing; compare the rows that are already trained"
    )
    chosen = parser.parse_args(arguments)
    logging.disable_progress_bar()
    seeds = range(chosen.seeds)
    if not chosen.trained:
        write_texts(chosen.work, chosen.processes, print)
        train_all(chosen.work, seeds, chosen.processes, print)
    drafts = finished(chosen.work, seeds)
    found = {}
    for temperature in (0.0, 1.0):
        print(f"comparing {len(drafts)} rows at temperature {temperature:g}")
        found[temperature] = compare(chosen.work, drafts, temperature, lambda done, of: print(f"{done} of {of} texts"))
    page = document(found, costs(drafts))
    print(page) if chosen.out is None else write_whole(chosen.out, page)


if __name__ == "__main__":
    main()
