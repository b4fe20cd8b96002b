"""Heads of one target trained by the papers' losses on equal texts, and judged: the tables of docs/training.md.

python -m benchmarks.gpu.heads --work FOLDER --target FOLDER --prompts FOLDER

FOLDER of the prompts has humaneval.jsonl and chat.jsonl, which judge only. The target writes its own questions, from
the start of its chat template, and answers them; code begins with signatures and docstrings of the standard library.
Processes share the device. A head is judged at temperature 0 when it is trained, seed by seed; temperature 1 is last.
After the seconds the same command goes on. `--tables` prints a record: the committed one, or a folder's heads.json.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

import spectheory as st
from reference import tracing
from reference.heads import Kind
from reference.judge import LEVEL, DraftComparison, DraftRun, HeldOutTexts, compare_drafts
from reference.library_sources import standard_library
from reference.losses import Eagle, Eagle3, Gto, Hass, Lk, Loss, Talf
from reference.models import Pair, load_pair, with_draft
from reference.prompts import encode_prompts, load_prompts
from reference.train.head import NEW_RATE, RECORD, STARTED_RATE, HeadRecipe, head_config, train_head
from reference.train.own_texts import OwnTexts
from spectheory.core.files import write_whole
from spectheory.report.tables import TextTable, markdown_table
from spectheory.results.paired_difference import Ratio, paired_difference

MEASURED = Path(__file__).with_name("h200") / "heads.json"
MARK = "\N{SNOWMAN}"
SETS, DEGREES = ("humaneval", "chat"), (0.0, 1.0)
BUDGET, DEEPEST = 16, 6
"""Nodes and depth of the tree that all heads draft."""
PROMPT, ASKED, NEW, JUDGED = 96, 48, 128, 72
"""Most tokens of a prompt to train on, of a question and of an answer of the target, and of a text that judges."""
BATCH, SEEDS, SAMPLED = 1024, 3, 100
"""Texts written at a time; trainings of a row; most prompts of a set that judge at temperature 1, which is slow."""


@dataclass(frozen=True)
class Row:
    """A head that is trained once for each seed.

    It is compared with `against`, which differs in one thing. A head of no `kind` is trained on from the start of the
    same seed, for `longer` times as many steps as the others.
    """

    name: str
    loss: Loss
    against: str | None = None
    kind: Kind | None = None
    seeds: int = SEEDS
    longer: float = 1.0

    def folder(self, work: Path, seed: int) -> Path:
        """The folder of one training."""
        return work / "heads" / f"{self.name.lower().replace(' ', '-').replace('=', '').replace(',', '')}-{seed}"


CHAIN, GTO, ROOTS = "CE, 3 passes", Gto(passes=4, groups=2), 48
START = Row("EAGLE-1 start", Eagle(), kind="eagle1")
ROWS = (
    START,
    Row("EAGLE-3, 3 passes", Eagle3(passes=3), START.name, kind="eagle3", seeds=1),
    Row("EAGLE-1", Eagle(), START.name),
    Row("HASS", Hass(), "EAGLE-1"),
    Row(CHAIN, Eagle3(passes=3), "EAGLE-1"),
    Row("LK, 3 passes", Lk(passes=3), CHAIN),
    Row("TALF k=4", Talf(k=4, roots=ROOTS), "HASS"),
    Row("GTO without rewards", Eagle3(passes=4), CHAIN),
    Row("GTO", GTO, "GTO without rewards"),
    Row(f"{CHAIN}, for the cost of GTO", Eagle3(passes=3), "GTO", longer=2.5),  # 27 and 69 s in the log of the record
    Row("TALF k=1", Talf(k=1, roots=ROOTS), CHAIN),
    Row("TALF k=2", Talf(k=2, roots=ROOTS), "TALF k=1"),
    Row("GTO, shuffled rewards", replace(GTO, shuffled=True), "GTO without rewards"),
)
BY_NAME = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Bench:
    """Where everything is; each process holds the target."""

    work: Path
    target: str
    prompts: Path
    device: str
    count: int

    @functools.cache  # noqa: B019
    def pair(self, on_cuda: torch.dtype = torch.float32) -> Pair:
        """The target alone, loaded once in each process."""
        dtype = on_cuda if self.device == "cuda" else torch.float32
        return load_pair(self.target, None, device=self.device, dtype=dtype)

    @functools.cache  # noqa: B019
    def texts(self) -> OwnTexts:
        """The texts of both temperatures."""
        return OwnTexts(*(self.work / f"texts-{one:g}" for one in DEGREES))

    def call(self, name: str, *arguments: Any) -> None:
        """Run a method, and give memory of the device back to the other processes."""
        getattr(self, name)(*arguments)
        if self.device == "cuda":
            torch.cuda.empty_cache()

    @functools.cached_property
    def judging(self) -> set[tuple[str, ...]]:
        """All sequences of eight words of the prompts that judge; a prompt to train on has none of them."""
        texts = [(self.prompts / f"{name}.jsonl").read_text().replace("\\n", " ") for name in SETS]
        return {words for text in texts for line in text.splitlines() for words in _eights(line)}

    def write_questions(self) -> None:
        """Chats that the target asks itself: it goes on from the start of its template, up to the end of the turn."""
        pair, chat = self.pair(torch.bfloat16), [{"role": "user", "content": MARK}]
        tokenizer: Any = pair.tokenizer
        chats = bool(tokenizer.chat_template)
        begin = tokenizer.apply_chat_template(chat, tokenize=False).split(MARK)[0] if chats else "def "
        settings = tracing.TraceSettings("questions", 1.0, 1, ASKED, BATCH, seed=3)
        tokens = tokenizer(begin, add_special_tokens=False)["input_ids"]
        tracing.record_trace(pair, [tokens] * self.count, settings, self.work / "questions")
        rows = [row["text"] for row in tracing.read_trace(self.work / "questions")]
        ended = [row for row in rows if row[-1] in pair.stop_tokens]
        asked = [tokenizer.decode(row[:-1]).strip() for row in ended or rows]
        found = [one for one in dict.fromkeys(asked) if len(one) > 12 and _eights(one).isdisjoint(self.judging)]
        lines = ({"messages": [{"role": "user", "content": one}]} if chats else {"text": one} for one in found)
        write_whole(self.work / "chat.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def write_code(self) -> None:
        """Signatures and docstrings of functions of the standard library, in a random order of the files."""
        if (to := self.work / "code.jsonl").exists():
            return
        pair, found = self.pair(), []
        files = [file for file in standard_library() if not file.is_held_out]
        random.Random(0).shuffle(files)
        for file in files:
            for node in ast.walk(ast.parse(file.text)):
                if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                    text = dedent("\n".join(file.text.split("\n")[node.lineno - 1 : node.body[0].end_lineno])) + "\n"
                    long = len(pair.tokenizer(text)["input_ids"])
                    if 16 <= long <= PROMPT and _eights(text).isdisjoint(self.judging):
                        found.append(json.dumps({"text": text}) + "\n")
            if len(found) >= self.count // 2:
                break
        write_whole(to, "".join(dict.fromkeys(found)))

    def write_texts(self, temperature: float) -> None:
        """The target's continuations at one temperature, of half the prompts."""
        pair = self.pair(torch.bfloat16)
        read = (encode_prompts(pair, load_prompts(self.work / f"{name}.jsonl")) for name in ("code", "chat"))
        kept = ([row for row in one if 2 < len(row) <= PROMPT][: self.count // 2] for one in read)
        rows = [row for one in kept for row in one[int(temperature) :: 2]]
        settings = tracing.TraceSettings("code and chat", temperature, 1, NEW, BATCH, seed=int(temperature))
        tracing.record_trace(pair, sorted(rows, key=len), settings, self.work / f"texts-{temperature:g}")

    def train(self, name: str, seed: int, steps: int) -> None:
        """Train one row with one seed. A new head is as wide as the target; EAGLE-3's has a third of its vocabulary."""
        row, pair, config = BY_NAME[name], self.pair(), None
        if row.kind:
            known = pair.target.config
            third = known.vocab_size // 3 if row.kind == "eagle3" else None
            sizes: Any = {"intermediate_size": known.intermediate_size, "draft_vocab_size": third}
            config = head_config(pair.target, row.kind, **sizes, name=self.target)
        else:
            pair = with_draft(pair, START.folder(self.work, seed))
        recipe = HeadRecipe(row.loss, steps, *((16, seed, NEW_RATE) if row.kind else (8, seed, STARTED_RATE)))
        train_head(pair, self.texts(), row.folder(self.work, seed), recipe, config)

    def write_judging(self, which: str, temperature: float) -> None:
        """The target's texts after the prompts of a set; at temperature 0 with the ranks of the start's candidates."""
        prompts, pair = load_prompts(self.prompts / f"{which}.jsonl"), self.judging_pair(temperature)
        rows = encode_prompts(pair, prompts[:: -(-len(prompts) // SAMPLED) if temperature else 1])
        settings = tracing.TraceSettings(which, temperature, BUDGET, JUDGED, 240, seed=5)
        tracing.record_trace(pair, sorted(rows, key=len), settings, self.work / f"{which}-{temperature:g}")

    def judging_pair(self, temperature: float) -> Pair:
        """The pair that wrote the texts which judge."""
        return self.pair() if temperature else with_draft(self.pair(), START.folder(self.work, 0))

    def judge(self, name: str, seed: int, which: str, temperature: float) -> None:
        """Write a head's expected tokens and cycles for each prompt of a set."""
        folder = BY_NAME[name].folder(self.work, seed)
        if (to := folder / f"{which}-{temperature:g}.json").exists():
            return
        texts = HeldOutTexts.of_trace(self.work / f"{which}-{temperature:g}", self.judging_pair(temperature))
        tree = st.best_tree(tracing.acceptance(self.work / f"{which}-0", min_trials=20), BUDGET, max_depth=DEEPEST)
        pair = with_draft(texts.pair, folder)
        found = compare_drafts(texts, {name: [pair]}, tree)
        run = found.runs[name][0]
        arrays = run.ratio.numerators, run.ratio.denominators, run.accepted
        rows = [" ".join(f"{value:.8g}" for value in one) for one in arrays]
        write_whole(to, json.dumps({"title": found.title, "run": rows}) + "\n")


def _eights(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return set(zip(*(words[place:] for place in range(8)), strict=False))


def _begin() -> None:
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    logging.disable_progress_bar()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the seconds allow, write the record, and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.heads", description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, help="folder for texts, heads, judgements and the record heads.json")
    parser.add_argument("--target", help="folder of the target")
    parser.add_argument("--prompts", type=Path, help="folder of humaneval.jsonl and chat.jsonl")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--texts", type=int, default=6144, help="number of texts to train on")
    parser.add_argument("--seconds", type=float, default=500, help="seconds until everything stops")
    parser.add_argument("--steps", type=int, nargs=2, default=(400, 170), help="of the start, of the others; for 500 s")
    parser.add_argument("--processes", type=int, default=10, help="processes that share the device")
    parser.add_argument("--tables", type=Path, nargs="?", const=MEASURED, help="print the tables of a record")
    given = parser.parse_args(arguments)
    if not (given.tables or (given.work and given.target and given.prompts)):
        parser.error("--work, --target and --prompts are needed, or --tables alone")
    file = given.tables or given.work / "heads.json"
    if not given.tables:
        bench = Bench(given.work.resolve(), given.target, given.prompts.resolve(), given.device, given.texts)
        given.work.mkdir(parents=True, exist_ok=True)
        others = {*multiprocessing.active_children()}
        pool = ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn"), _begin)
        try:
            _run(bench, pool, given)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in {*multiprocessing.active_children()} - others:
                process.kill()
        write_whole(file, recorded(bench))
    for table in tables(json.loads(file.read_text())):
        print(markdown_table(table))


def _run(bench: Bench, pool: ProcessPoolExecutor, given: argparse.Namespace) -> None:
    began = time.time()

    def run(*calls: tuple[Any, ...], then: Callable[[tuple[Any, ...]], list[Any]] = lambda call: []) -> None:
        """Methods of the bench in this order until the seconds are over; what follows from one comes next."""
        waiting, running = list(calls), dict[Future[Any], tuple[Any, ...]]()
        while (waiting or running) and (left := began + given.seconds - time.time()) > 0:
            while waiting and len(running) < given.processes:
                call = waiting.pop(0)
                running[pool.submit(bench.call, *call)] = call
            for one in wait(running, left, FIRST_COMPLETED).done:
                call, error = running.pop(one), one.exception()
                waiting[:0] = [] if error else then(call)
                words = " ".join(map(str, call)) + (f": {type(error).__name__}: {str(error)[:300]}" if error else "")
                print(f"{time.time() - began:6.1f} s  {words}", flush=True)

    def judged(call: tuple[Any, ...], temperature: float = 0.0) -> list[Any]:
        return [("judge", *call[1:3], which, temperature) for which in SETS] if call[0] == "train" else []

    run(("write_questions",), ("write_code",), *[("pair",)] * given.processes)
    run(*(("write_texts", one) for one in DEGREES), *(("write_judging", one, 1.0) for one in SETS))
    order = [(row, seed) for seed in range(SEEDS) for row in ROWS if seed < row.seeds]
    trained = [("train", row.name, seed, round(row.longer * given.steps[not row.kind])) for row, seed in order]
    run(*(call for call in trained if BY_NAME[call[1]].kind))
    run(*(("write_judging", one, 0.0) for one in SETS))
    run(*trained, then=judged)
    run(*(more for call in trained for more in judged(call, 1.0)))


def recorded(bench: Bench) -> str:
    """The record of all trainings and judgements that there are."""
    device = torch.cuda.get_device_name() if bench.device == "cuda" else bench.device
    here = st.Provenance.now(f"python -m {__spec__.name}", packages=("torch", "transformers"), device=device)
    trained, judged = dict[str, Any](), dict[str, Any]()
    for name, folder, seed in ((row.name, row.folder(bench.work, n), n) for row in ROWS for n in range(row.seeds)):
        if (file := folder / RECORD).exists():
            trained.setdefault(name, []).append(json.loads(file.read_text()))
        for one in sorted(folder.glob("*-[01].json")):
            read, which = json.loads(one.read_text()), one.stem.replace("-", ", T=")
            there = judged.setdefault(which, {"title": read["title"], "runs": {}})
            there["runs"].setdefault(name, {})[str(seed)] = read["run"]
    record = {"kind": "gpu-heads", "provenance": here.to_dict(), "trained": trained, "judged": judged}
    return json.dumps(record, indent=1) + "\n"


def tables(record: Any) -> Iterator[TextTable]:
    """E[tau] and acceptance by depth of each row, and each row against the row that differs from it in one thing."""
    sets, rows, pairs = record["judged"], [], []
    for name, each in record["trained"].items():
        other = BY_NAME[name].against or ""
        cells = [_cells(one["runs"].get(name, {}), one["runs"].get(other, {})) for one in sets.values()]
        seconds = np.mean([one["cpu_seconds"] for one in each])
        rows.append((name, f"{each[0]['texts']:,}", f"{seconds:.0f}", *(tau for tau, _ in cells)))
        pairs.append((name, other, *(paired for _, paired in cells)))
    titles = "\n".join(f"{name}: {one['title']}" for name, one in sets.items())
    yield TextTable(titles, ("head", "texts read", "seconds", *sets), tuple(rows))
    yield TextTable("", ("head", "against", *sets), tuple(pairs[1:]))


def _cells(*written: dict[str, list[str]]) -> tuple[str, str]:
    """E[tau] with the acceptance by depth, and the difference from another row over the seeds that both have."""
    tau, paired, runs = "", "", []
    for one in written:
        parts = {seed: [np.array(row.split(), float) for row in rows] for seed, rows in one.items()}
        runs.append({seed: DraftRun(Ratio(above, below), kept) for seed, (above, below, kept) in parts.items()})
    if ours := tuple(runs[0].values()):
        shares = ", ".join(f"{100 * share:.0f}" for share in np.mean([run.acceptance for run in ours], 0))
        tau = "{:.3f} ± {:.3f} ({}%)".format(*DraftComparison("", {"": ours}).tau(""), shares)
    if seeds := sorted(runs[0].keys() & runs[1].keys()):
        both = [[one[seed].ratio for seed in seeds] for one in runs]
        found = paired_difference(*both, by_run=len(seeds) > 1)
        paired = f"{found.percent:+.2f}% ± {found.half_width(LEVEL):.2f} ({len(seeds)})"
    return tau, paired


if __name__ == "__main__":
    main()
