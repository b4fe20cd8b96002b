"""The trainings of all rows and seeds, on several processes; after an interruption the same call continues."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from pathlib import Path

import torch
from transformers.utils import logging

from benchmarks.training.rows import INDEPENDENT, ROWS, Row
from reference.heads import HeadConfig
from reference.models import DRAFT, TARGET, Pair, load_pair
from reference.prompts import training_texts
from reference.train.head import RECORD, HeadRecipe, head_config, train_head
from reference.train.own_texts import OwnTexts, TextSettings, write_own_texts

TEXTS = 5_120
"""Texts of 256 tokens that the target writes: two cores take a quarter of an hour for them."""
Told = Callable[[str], None]


def run_folder(work: Path, row: Row, seed: int) -> Path:
    """The folder of one training."""
    return work / "runs" / f"{row.folder}-{seed}"


def write_texts(work: Path, processes: int, say: Told) -> None:
    """Let the target write the texts that all rows are trained on."""
    with pool(processes) as several:
        for done in as_completed([several.submit(_write_share, work, k, processes) for k in range(processes)]):
            done.result()
    say(f"texts: {OwnTexts(work / 'texts').rows:,} in {work / 'texts'}")


def train_all(work: Path, seeds: Sequence[int], processes: int, say: Told) -> None:
    """Train every row with every seed, each as soon as its start is trained."""
    waiting = [(row, seed) for seed in seeds for row in ROWS]
    total = len(waiting)
    with pool(processes) as several:
        running: dict[Future[None], tuple[Row, int]] = {}
        while waiting or running:
            for task in [task for task in waiting if _can_start(work, *task)][: processes - len(running)]:
                waiting.remove(task)
                running[several.submit(_train, work, *task)] = task
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                done.result()
                row, seed = running.pop(done)
                say(f"trained {row.name}, seed {seed} ({total - len(waiting) - len(running)} of {total})")


def _can_start(work: Path, row: Row, seed: int) -> bool:
    """Whether the start of a training is there."""
    start = next((one for one in ROWS if one.name == row.start), None)
    return start is None or (run_folder(work, start, seed) / RECORD).exists()


def finished(work: Path, seeds: Sequence[int]) -> dict[str, list[Path]]:
    """The folders of the trainings that have ended, by row."""
    folders = {row.name: [run_folder(work, row, seed) for seed in seeds] for row in ROWS}
    ended = {name: [run for run in runs if (run / RECORD).exists()] for name, runs in folders.items()}
    return {name: runs for name, runs in ended.items() if runs}


def pool(processes: int) -> ProcessPoolExecutor:
    """Processes of one thread each."""
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_one_thread)


def _one_thread() -> None:
    """One thread for each process, and no progress bars of transformers."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()


def _write_share(work: Path, number: int, of: int) -> None:
    pair = load_pair()
    write_own_texts(pair, training_texts(pair), TextSettings(rows=TEXTS), work / "texts", share=(number, of))


def _train(work: Path, row: Row, seed: int) -> None:
    pair, config = begin(work, row, seed)
    train_head(pair, OwnTexts(work / "texts"), run_folder(work, row, seed), recipe(row, seed), config)


def begin(work: Path, row: Row, seed: int) -> tuple[Pair, HeadConfig | None]:
    """The pair whose draft a row trains on, or the shipped pair and the configuration of a new head."""
    if row.start is None:
        pair = load_pair()
        return pair, head_config(pair.target, row.kind, intermediate_size=row.intermediate)
    rows = {one.name: one for one in ROWS}
    draft = DRAFT if row.start == INDEPENDENT else run_folder(work, rows[row.start], seed)
    return load_pair(TARGET, draft), None


def recipe(row: Row, seed: int) -> HeadRecipe:
    """How a row is trained."""
    return HeadRecipe(
        row.loss,
        steps=row.steps,
        rows=row.rows,
        seed=seed,
        rate=row.rate,
        roots=row.roots,
        trees=row.trees,
    )
