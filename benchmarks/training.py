"""Heads trained by the papers' losses at equal cost, and compared on held-out texts: the tables of docs/training.md.

python -m benchmarks.training --work FOLDER

After an interruption the same command continues.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed
from transformers.utils import logging

import spectheory as st
from reference import tracing
from reference.heads import Kind
from reference.judge import LEVEL, DraftComparison, HeldOutTexts, compare_drafts
from reference.library_sources import standard_library
from reference.losses import Eagle, Eagle3, Gto, Hass, Lk, Loss, Talf
from reference.models import DRAFT, TARGET, Pair, load_pair, with_draft
from reference.prompts import training_texts
from reference.train.head import NEW_RATE, RECORD, STARTED_RATE, HeadRecipe, head_config, train_head
from reference.train.own_texts import OwnTexts, corpus_pieces
from spectheory.report.tables import TextTable, markdown_table

INDEPENDENT = "independent draft"
"""The row that is not trained: the draft model in `reference/pair/draft`, the baseline of all."""
TEXTS = 2_560
"""Number of texts of each temperature that all rows are trained on."""
BUDGET, PROMPT = 16, 64
"""Nodes of the tree that all drafts draft, and tokens in a prompt."""
EVERY, NEW_TOKENS = {0.0: 96, 1.0: 192}, {0.0: 40, 1.0: 48}
"""By temperature: a prompt starts at every so many tokens of the held-out files, and gets so many new tokens."""


@dataclass(frozen=True)
class Row:
    """A head that is trained once for each seed.

    Attributes:
        name: name in the table.
        loss: the loss with its settings.
        steps: number of steps, chosen so that rows that are compared cost about the same CPU time.
        start: the row from whose head of the same seed training starts; None for a new head.
        kind: kind of a new head.
        hidden: width of the MLP of a new head.
        rows: number of texts in a step.
        against: the row that differs from this one in one thing.
    """

    name: str
    loss: Loss
    steps: int
    start: str | None = None
    kind: Kind = "eagle3"
    hidden: int = 512
    rows: int = 16
    against: str | None = None

    def folder(self, work: Path, seed: int) -> Path:
        """The folder of one training."""
        return work / "runs" / f"{self.name.lower().replace(' ', '-').replace('=', '').replace(',', '')}-{seed}"


START, CHAIN, WIDE = "EAGLE-1 start", "CE, 3 passes", "EAGLE-1 start, MLP of 1536"
GTO = Gto(passes=4, groups=2)
ROWS = (
    Row(START, Eagle(), 1000, kind="eagle1"),
    Row("EAGLE-1", Eagle(), 700, START),
    Row("HASS", Hass(), 215, START, against="EAGLE-1"),
    Row(CHAIN, Eagle3(passes=3), 245, START, against="EAGLE-1"),
    Row("LK, 3 passes", Lk(passes=3), 220, START, against=CHAIN),
    Row("TALF k=4", Talf(k=4, roots=96), 88, START, rows=8, against="HASS"),
    Row("GTO", GTO, 65, START, rows=8, against="GTO without rewards"),
    Row("GTO without rewards", Eagle3(passes=4), 65, START, rows=8, against=CHAIN),
    Row("GTO, shuffled rewards", replace(GTO, shuffled=True), 65, START, rows=8, against="GTO without rewards"),
    Row("TALF k=1", Talf(k=1, roots=96), 265, START, rows=8, against=CHAIN),
    Row("TALF k=2", Talf(k=2, roots=96), 170, START, rows=8, against="TALF k=1"),
    Row("EAGLE-3, 1 pass", Eagle3(passes=1), 1650),
    Row("EAGLE-3, 3 passes", Eagle3(passes=3), 540, against="EAGLE-3, 1 pass"),
    Row("EAGLE-3, 7 passes", Eagle3(passes=7), 205, against="EAGLE-3, 3 passes"),
    Row(WIDE, Eagle(), 1000, kind="eagle1", hidden=1536),
    Row(f"{CHAIN}, MLP of 1536", Eagle3(passes=3), 245, WIDE, against=CHAIN),
    Row(f"{CHAIN}, MLP of 1536, 1,600 steps", Eagle3(passes=3), 1600, WIDE, against=f"{CHAIN}, MLP of 1536"),
)  # fmt: skip
"""All rows; those without a start are trained before those that start from them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the texts, train what is not trained, compare, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for texts, trainings and comparisons")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds with which each row is trained")
    parser.add_argument("--processes", type=int, default=2, help="trainings at the same time, one core each")
    given = parser.parse_args(arguments)
    _one_thread()
    pair, run = load_pair(), Parallel(given.processes, verbose=10)
    for seed, temperature in enumerate(EVERY):
        settings = tracing.TraceSettings("pieces of a corpus", temperature, 1, 192, batch=64, seed=seed)
        pieces = corpus_pieces(training_texts(pair), TEXTS, PROMPT, seed)
        tracing.record_trace(load_pair(draft=None), pieces, settings, given.work / f"texts-{temperature:g}")
    for is_start in (True, False):
        rows = [row for row in ROWS if (row.start is None) is is_start]
        run(delayed(train)(given.work, row, seed) for seed in given.seeds for row in rows)
    trained = {row.name: [row.folder(given.work, seed) for seed in given.seeds] for row in ROWS}
    compared = run(delayed(compare)(given.work, trained, temperature) for temperature in EVERY)
    found = dict(zip(EVERY, compared, strict=True))
    for one in found.values():
        print(one.title)
    for table in tables(found, trained):
        print(markdown_table(table))


def _one_thread() -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()


def train(work: Path, row: Row, seed: int) -> None:
    """Train one row with one seed."""
    _one_thread()
    rate, starts = (NEW_RATE if row.start is None else STARTED_RATE), {one.name: one for one in ROWS}
    recipe = HeadRecipe(row.loss, row.steps, row.rows, seed, rate)
    pair = load_pair() if row.start is None else load_pair(TARGET, starts[row.start].folder(work, seed))
    config = None if row.start else head_config(pair.target, row.kind, intermediate_size=row.hidden)
    train_head(pair, OwnTexts(*(work / f"texts-{one:g}" for one in EVERY)), row.folder(work, seed), recipe, config)


def held_out_texts(folder: Path, temperature: float, every: int, new_tokens: int) -> HeldOutTexts:
    """The target's continuations of pieces of the held-out files, one from every so many tokens, clustered by file."""
    pair = load_pair(draft=DRAFT)
    pieces = list(_pieces(pair, every))
    settings = tracing.TraceSettings("pieces of held-out files", temperature, new_tokens=new_tokens, batch=16)
    tracing.record_trace(pair, [piece for _, piece in pieces], settings, folder)
    return replace(HeldOutTexts.of_trace(folder, pair), sources=tuple(name for name, _ in pieces))


def _pieces(pair: Pair, every: int) -> Iterator[tuple[str, list[int]]]:
    files = [file for file in standard_library() if file.is_held_out]
    rows: Any = pair.tokenizer([file.text for file in files], add_special_tokens=False, verbose=False)["input_ids"]
    for file, row in zip(files, rows, strict=True):
        for start in range(0, len(row) - PROMPT + 1, every):
            yield file.name, row[start : start + PROMPT]


def compare(work: Path, trained: Mapping[str, list[Path]], temperature: float) -> DraftComparison:
    """All rows on the same held-out texts, with the tree that is best for the independent draft's measured rates."""
    _one_thread()
    folder = work / f"texts-held-out-{temperature:g}"
    texts = held_out_texts(folder, temperature, EVERY[temperature], NEW_TOKENS[temperature])
    tree = st.best_tree(tracing.acceptance(folder), BUDGET)
    drafts = {INDEPENDENT: [texts.pair]}
    drafts |= {name: [with_draft(texts.pair, run) for run in runs] for name, runs in trained.items()}
    return compare_drafts(texts, drafts, tree)


def tables(found: Mapping[float, DraftComparison], trained: Mapping[str, list[Path]]) -> Iterator[TextTable]:
    """E[tau] of each row, and each row against the row that differs from it in one thing."""
    rows, pairs = [], []
    titles = [title for t in found for title in (f"E[tau], T={t:g}", f"over the {INDEPENDENT}")]
    for name in (INDEPENDENT, *trained):
        runs = [json.loads((run / RECORD).read_text()) for run in trained.get(name, [])]
        cells = [name, str(len(runs))] + [
            f"{sum(run[key] for run in runs) / max(1, len(runs)):,.0f}" for key in ("cpu_seconds", "texts")
        ]
        for one in found.values():
            tau, half = one.tau(name)
            cells += [f"{tau:.3f} ± {half:.3f}", _difference(one, name, INDEPENDENT, by_run=False)]
        rows.append(tuple(cells))
    for row in ROWS:
        if row.against is not None:
            by_temperature = (_difference(one, row.name, row.against, by_run=True) for one in found.values())
            pairs.append((row.name, row.against, *by_temperature))
    yield TextTable("", ("draft", "seeds", "CPU s", "texts read", *titles), tuple(rows))
    yield TextTable("", ("draft", "against", *(f"T={t:g}" for t in found)), tuple(pairs))


def _difference(one: DraftComparison, name: str, other: str, *, by_run: bool) -> str:
    if name == other:
        return ""
    paired = one.difference(name, other, by_run=by_run)
    return f"{paired.percent:+.2f}% ± {paired.half_width(LEVEL):.2f}"


if __name__ == "__main__":
    main()
