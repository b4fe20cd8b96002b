"""Heads of one target trained by the papers' losses on equal texts, and judged: the tables of docs/training.md.

python -m benchmarks.gpu.heads --work FOLDER --target FOLDER --prompts FOLDER --device cuda --seconds 280

FOLDER of the prompts has humaneval.jsonl and chat.jsonl, which judge only. The target writes its own questions, from
the start of its chat template, and answers them; code begins with signatures and docstrings of installed packages.
Processes share the device. Trainings and judgements come in the order of worth until the seconds are over, and the same
command goes on from there. `--tables` prints what there is.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import multiprocessing
import random
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

import spectheory as st
from reference import tracing
from reference.heads import Kind
from reference.judge import LEVEL, DraftComparison, DraftRun, HeldOutTexts, compare_drafts
from reference.losses import Eagle, Eagle3, Gto, Hass, Lk, Loss, Talf
from reference.models import Pair, load_pair, with_draft
from reference.prompts import encode_prompts, load_prompts
from reference.train.head import NEW_RATE, STARTED_RATE, HeadRecipe, fresh_head, head_config, train_head
from reference.train.loop import fit
from reference.train.objectives import Batching, objective_of
from reference.train.own_texts import OwnTexts
from spectheory.core.files import write_whole
from spectheory.report.tables import TextTable, markdown_table
from spectheory.results.paired_difference import Ratio

PACKAGES = "numpy", "scipy", "torch", "transformers", "networkx", "sympy", "pandas", "jax", "matplotlib"
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "testing"}
PLAN = "plan.json"
MARK = "\N{SNOWMAN}"
SETS, DEGREES = ("humaneval", "chat"), (0.0, 1.0)
BUDGET, DEEPEST = 16, 6
"""Nodes and depth of the tree that all heads draft."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of texts and tokens; `new` are those that the target writes, `asked` those of its questions."""

    texts: int = 6144
    prompt: int = 96
    asked: int = 48
    new: int = 128
    batch: int = 1024
    judged: tuple[int, int] = (240, 100)
    """Most prompts of a set that judge at temperature 0, and at 1, where the replay is on the host and takes longer."""
    judged_new: int = 72
    start_steps: int = 1200
    steps: int = 1000
    rows: int = 16
    timed: int = 9
    seeds: int = 3


DRY = Sizes(16, 32, 16, 32, 16, (3, 3), 20, start_steps=3, steps=2, rows=2, timed=4, seeds=1)


@dataclass(frozen=True)
class Row:
    """A head that is trained once for each seed.

    Attributes:
        name: name in the table.
        loss: the loss with its settings.
        against: the row that differs from this one in one thing.
        kind: kind of a new head; None trains the start of the same seed on.
        rows: number of texts in a step.
        seeds: number of seeds.
        cost_of: the row that costs as much; None reads as many texts as the others.
    """

    name: str
    loss: Loss
    against: str | None = None
    kind: Kind | None = None
    rows: int = 8
    seeds: int = 3
    cost_of: str | None = None

    def folder(self, work: Path, seed: int) -> Path:
        """The folder of one training."""
        return work / "heads" / f"{self.name.lower().replace(' ', '-').replace('=', '').replace(',', '')}-{seed}"


CHAIN, GTO, ROOTS = "CE, 3 passes", Gto(passes=4, groups=2), 48
START = Row("EAGLE-1 start", Eagle(), kind="eagle1", rows=16)
ROWS = (
    Row("EAGLE-1", Eagle(), START.name),
    Row("HASS", Hass(), "EAGLE-1"),
    Row(CHAIN, Eagle3(passes=3), "EAGLE-1"),
    Row("LK, 3 passes", Lk(passes=3), CHAIN),
    Row("TALF k=4", Talf(k=4, roots=ROOTS), "HASS"),
    Row("GTO without rewards", Eagle3(passes=4), CHAIN),
    Row("GTO", GTO, "GTO without rewards"),
    Row(f"{CHAIN}, for the cost of GTO", Eagle3(passes=3), "GTO", cost_of="GTO"),
    Row("TALF k=1", Talf(k=1, roots=ROOTS), CHAIN),
    Row("TALF k=2", Talf(k=2, roots=ROOTS), "TALF k=1"),
    Row("GTO, shuffled rewards", replace(GTO, shuffled=True), "GTO without rewards"),
)
"""The heads that are trained on from the start."""
NEW = (START, Row("EAGLE-3, 3 passes", Eagle3(passes=3), START.name, kind="eagle3", rows=16, seeds=1))
BY_NAME = {row.name: row for row in (*NEW, *ROWS)}


class _TimeIsUpError(Exception):
    pass


@dataclass(frozen=True)
class Bench:
    """Where everything is, and when it ends; each process holds the target."""

    work: Path
    target: str
    prompts: Path
    device: str
    sizes: Sizes
    ends: float

    def pair(self) -> Pair:
        """The target alone, loaded once in each process."""
        return _loaded(self.target, self.device, torch.float32)

    def writer(self) -> Pair:
        """The target that writes what is trained on: in bfloat16 on a GPU, which is faster."""
        return _loaded(self.target, self.device, torch.bfloat16 if self.device == "cuda" else torch.float32)

    def texts(self) -> OwnTexts:
        """The texts of both temperatures."""
        return _own_texts(self.work)

    def write_questions(self) -> None:
        """Chats that the target asks itself: it goes on from the start of its template, up to the end of the turn."""
        pair, sizes, to = self.writer(), self.sizes, self.work / "chat.jsonl"
        if to.exists():
            return
        tokenizer: Any = pair.tokenizer
        begin, chats = "def ", bool(tokenizer.chat_template)
        if chats:
            whole = tokenizer.apply_chat_template([{"role": "user", "content": MARK}], tokenize=False)
            begin = whole.split(MARK)[0]
        settings = tracing.TraceSettings("questions", 1.0, 1, sizes.asked, sizes.batch, seed=3)
        tokens = tokenizer(begin, add_special_tokens=False)["input_ids"]
        tracing.record_trace(pair, [tokens] * sizes.texts, settings, self.work / "questions")
        rows = [row["text"] for row in tracing.read_trace(self.work / "questions")]
        ended = [row for row in rows if row[-1] in pair.stop_tokens]
        asked = [tokenizer.decode(row[:-1]).strip() for row in ended or rows]
        found = [one for one in dict.fromkeys(asked) if len(one) > 12 and self.is_new(one)]
        lines = ({"messages": [{"role": "user", "content": one}]} if chats else {"text": one} for one in found)
        write_whole(to, "".join(json.dumps(line) + "\n" for line in lines))

    @functools.cached_property
    def judging(self) -> set[tuple[str, ...]]:
        """All sequences of eight words of the prompts that judge."""
        return {words for name in SETS for one in (self.prompts / f"{name}.jsonl").open() for words in _eights(one)}

    def is_new(self, text: str) -> bool:
        """Whether a training prompt shares no eight words with a prompt that judges."""
        return self.judging.isdisjoint(_eights(text))

    def write_code(self) -> None:
        """Signatures and docstrings of functions of installed packages, in a random order of the files."""
        if (to := self.work / "code.jsonl").exists():
            return
        pair, sizes, found = self.pair(), self.sizes, []
        places = [Path(sysconfig.get_path("stdlib")), *(Path(sysconfig.get_path("purelib"), name) for name in PACKAGES)]
        files = [file for place in places for file in sorted(place.rglob("*.py"))
                 if LEFT_OUT.isdisjoint(file.relative_to(place).parts)]  # fmt: skip
        random.Random(0).shuffle(files)
        for file in files:
            for text in _functions(file):
                long = len(pair.tokenizer(text)["input_ids"])
                if 16 <= long <= sizes.prompt and self.is_new(text):
                    found.append(json.dumps({"text": text}) + "\n")
            if len(found) >= sizes.texts // 2:
                break
        write_whole(to, "".join(dict.fromkeys(found)))

    def write_texts(self, temperature: float) -> None:
        """The target's continuations at one temperature, of half the prompts."""
        pair, sizes = self.writer(), self.sizes
        rows: list[list[int]] = []
        for name in ("code", "chat"):
            prompts = encode_prompts(pair, load_prompts(self.work / f"{name}.jsonl"))
            kept = [row for row in prompts if 2 < len(row) <= sizes.prompt][: sizes.texts // 2]
            rows += kept[int(temperature) :: 2]
        settings = tracing.TraceSettings("code and chat", temperature, 1, sizes.new, sizes.batch, seed=int(temperature))
        tracing.record_trace(pair, sorted(rows, key=len), settings, self.work / f"texts-{temperature:g}")
        self.free()

    def cost(self, name: str) -> float:
        """Seconds of a step of a row, while the other processes are as busy."""
        pair, row, seen = self.pair(), BY_NAME[name], []

        def done(*_: int) -> None:
            if self.device == "cuda":
                torch.cuda.synchronize()
            seen.append(time.perf_counter())

        config = self.config(row)
        head, start = (fresh_head(config, pair.target, self.texts(), 0) for _ in range(2))
        batching = Batching(self.texts(), min(row.rows, self.sizes.rows), 0)
        objective = objective_of(row.loss, head, pair.target, batching, start)
        with tempfile.TemporaryDirectory() as folder:
            fit(head, objective, self.sizes.timed, (STARTED_RATE, STARTED_RATE / 10), Path(folder, "step.pt"), done)
        self.free()
        return (seen[-2] - seen[1]) / (len(seen) - 3)

    def config(self, row: Row) -> Any:
        """The new head of a row: as wide as the target, and an EAGLE-3 head with a third of its vocabulary."""
        target = self.pair().target
        third = target.config.vocab_size // 3 if row.kind == "eagle3" else None
        sizes = {"intermediate_size": target.config.intermediate_size, "draft_vocab_size": third}
        return head_config(target, row.kind or "eagle1", **sizes, name=self.target)

    def train(self, name: str, seed: int, steps: int) -> None:
        """Train one row with one seed, or raise where the time is up."""
        row = BY_NAME[name]
        pair = self.pair() if row.kind else with_draft(self.pair(), START.folder(self.work, seed))
        rate, config = (NEW_RATE, self.config(row)) if row.kind else (STARTED_RATE, None)

        def done(*_: int) -> None:
            if time.time() > self.ends:
                raise _TimeIsUpError

        recipe = HeadRecipe(row.loss, steps, min(row.rows, self.sizes.rows), seed, rate)
        train_head(pair, self.texts(), row.folder(self.work, seed), recipe, config, done)
        self.free()

    def ready(self) -> None:
        """Nothing, once this process has loaded the target."""

    def write_judging(self, which: str, temperature: float) -> None:
        """The target's texts after the prompts of a set; at temperature 0 with the ranks of the start's candidates."""
        prompts, pair = load_prompts(self.prompts / f"{which}.jsonl"), self.judging_pair(temperature)
        rows = encode_prompts(pair, prompts[:: -(-len(prompts) // self.sizes.judged[temperature > 0])])
        settings = tracing.TraceSettings(which, temperature, BUDGET, self.sizes.judged_new, 240, seed=5)
        tracing.record_trace(pair, sorted(rows, key=len), settings, self.work / f"{which}-{temperature:g}")
        self.free()

    def judging_pair(self, temperature: float) -> Pair:
        """The pair that wrote the texts which judge."""
        return self.pair() if temperature else with_draft(self.pair(), START.folder(self.work, 0))

    def judge(self, name: str, seed: int, which: str, temperature: float) -> None:
        """Write a head's expected tokens and cycles for each prompt of a set."""
        to = self.work / "judged" / f"{BY_NAME[name].folder(self.work, seed).name}-{which}-{temperature:g}.json"
        if to.exists() or time.time() > self.ends:
            return
        texts = HeldOutTexts.of_trace(self.work / f"{which}-{temperature:g}", self.judging_pair(temperature))
        tree = st.best_tree(tracing.acceptance(self.work / f"{which}-0", min_trials=20), BUDGET, max_depth=DEEPEST)
        tree = tree if tree.budget else st.Tree.chain(2)  # of an untrained start
        pair = with_draft(texts.pair, BY_NAME[name].folder(self.work, seed))
        found = compare_drafts(texts, {name: [pair]}, tree)
        run = found.runs[name][0]
        arrays = run.ratio.numerators, run.ratio.denominators, run.accepted
        to.parent.mkdir(exist_ok=True)
        write_whole(to, json.dumps({"title": found.title, "run": [one.round(6).tolist() for one in arrays]}) + "\n")
        self.free()

    def free(self) -> None:
        """Give memory of the device back to the other processes."""
        if self.device == "cuda":
            torch.cuda.empty_cache()


def _eights(text: str) -> Iterator[tuple[str, ...]]:
    words = text.lower().split()
    return zip(*(words[place:] for place in range(8)), strict=False)


def _functions(file: Path) -> Iterator[str]:
    try:
        text = file.read_text()
        nodes = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            yield "\n".join(text.split("\n")[node.lineno - 1 : node.body[0].end_lineno]) + "\n"


Call = tuple[Any, ...]
START_SHARE, TRAIN_SHARE = 0.22, 0.45
"""Shares of the seconds after the measurement of costs; the rest is for the judge."""


@functools.cache
def _loaded(target: str, device: str, dtype: torch.dtype) -> Pair:
    return load_pair(target, None, device=device, dtype=dtype)


@functools.cache
def _own_texts(work: Path) -> OwnTexts:
    return OwnTexts(*(work / f"texts-{one:g}" for one in DEGREES))


def _begin(bench: Bench) -> None:
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    logging.disable_progress_bar()
    bench.pair()


class Queue:
    """Tasks of a bench, of which some run at the same time, and what was said of them."""

    def __init__(self, bench: Bench, pool: ProcessPoolExecutor) -> None:
        self.bench, self.pool, self.began = bench, pool, time.time()

    def say(self, words: str) -> None:
        """Print words after the seconds since the beginning."""
        print(f"{time.time() - self.began:6.1f} s  {words}", flush=True)

    def started(self, calls: Iterable[Call]) -> dict[Future[Any], Call]:
        """The calls as they run."""
        return {self.pool.submit(getattr(self.bench, name), *rest): (name, *rest) for name, *rest in calls}

    def run(self, *calls: Call, then: Callable[[Call], Iterable[Call]] = lambda call: ()) -> list[Any]:
        """The values of calls of the bench, started in this order; where one fails, its error is said and it has None.

        Each call is the name of a method with its arguments. When it has returned, the calls that follow from it start.
        """
        running = self.started(calls)
        found: dict[Call, Any] = {}
        while running and (left := self.bench.ends - time.time()) > -2:
            for one in wait(running, left + 3, FIRST_COMPLETED).done:
                call = running.pop(one)
                if (error := one.exception()) is None:
                    found[call] = one.result()
                    self.say(" ".join(map(str, call)))
                    running |= self.started(then(call))
                elif not isinstance(error, _TimeIsUpError):
                    self.say(f"{call}: {type(error).__name__}: {str(error)[:300]}")
        return [found.get(call) for call in calls]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the seconds allow, or print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.heads", description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for texts, heads and judgements")
    parser.add_argument("--target", help="folder of the target")
    parser.add_argument("--prompts", type=Path, help="folder of humaneval.jsonl and chat.jsonl")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=280, help="seconds until everything stops")
    parser.add_argument("--processes", type=int, default=10, help="processes that share the device")
    parser.add_argument("--tables", action="store_true", help="print the tables of what there is")
    parser.add_argument("--dry-run", action="store_true", help="a few texts and steps; measures nothing")
    given = parser.parse_args(arguments)
    if not given.tables:
        sizes = DRY if given.dry_run else Sizes()
        ends = time.time() + given.seconds
        bench = Bench(given.work.resolve(), given.target, given.prompts.resolve(), given.device, sizes, ends)
        given.work.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(given.processes, context, _begin, (bench,))
        try:
            _run(bench, Queue(bench, pool), given.processes)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.kill()
    for table in tables(given.work):
        print(markdown_table(table))


def _run(bench: Bench, queue: Queue, processes: int) -> None:
    queue.run(("write_questions",), ("write_code",), *[("ready",)] * processes)
    queue.say("prompts are there")
    queue.run(*(("write_texts", one) for one in DEGREES), *(("write_judging", one, 1.0) for one in SETS))
    queue.say("texts are there")
    if not (bench.work / PLAN).exists():
        costs = dict(zip(BY_NAME, queue.run(*(("cost", name) for name in BY_NAME)), strict=True))
        queue.say("seconds of a step: " + ", ".join(f"{name} {cost or 0:.3f}" for name, cost in costs.items()))
        left = bench.ends - time.time()
        if left < 0 or not any(costs.values()):
            return
        most = max(filter(None, costs.values()), default=1.0)
        steps = planned({name: cost or most for name, cost in costs.items()}, left, processes, bench.sizes)
        write_whole(bench.work / PLAN, json.dumps({"seconds": costs, "steps": steps}) + "\n")
    steps = json.loads((bench.work / PLAN).read_text())["steps"]
    queue.say(f"steps: {steps}")
    order = [(row, seed) for seed in range(bench.sizes.seeds) for row in BY_NAME.values() if seed < row.seeds]
    trained: list[Call] = [("train", row.name, seed, steps[row.name]) for row, seed in order]
    queue.run(*(call for call in trained if BY_NAME[call[1]].kind))
    queue.say("starts are there")
    queue.run(*(("write_judging", one, 0.0) for one in SETS))

    def judged(call: Call, temperature: float = 0.0) -> list[Call]:
        return [("judge", *call[1:3], which, temperature) for which in SETS] if call[0] == "train" else []

    queue.run(*trained, then=judged)
    queue.say("heads are trained and judged at temperature 0")
    queue.run(*(more for call in trained for more in judged(call, 1.0)))
    queue.say("heads are judged")


def planned(costs: Mapping[str, float], left: float, processes: int, sizes: Sizes) -> dict[str, int]:
    """The steps of each row: all that are trained on read as many texts, but for those that cost as much as another."""
    steps = {row.name: min(sizes.start_steps, int(START_SHARE * left / costs[row.name]) + 1) for row in NEW}
    ratio = {row.name: costs[row.cost_of or row.name] / costs[row.name] for row in ROWS}
    seconds = sum(sizes.seeds * ratio[name] * costs[name] for name in ratio)
    equal = min(sizes.steps, int(TRAIN_SHARE * left * processes / seconds) + 1)
    return steps | {name: round(equal * one) for name, one in ratio.items()}


def compared(work: Path, which: str, temperature: float) -> DraftComparison | None:
    """The judgements of a set and a temperature that there are, the start first; None without any of the start."""
    runs, title = {}, ""
    for row in BY_NAME.values():
        names = (f"{row.folder(work, seed).name}-{which}-{temperature:g}.json" for seed in range(row.seeds))
        found = [json.loads(file.read_text()) for one in names if (file := work / "judged" / one).exists()]
        if found:
            title = found[0]["title"]
            arrays = ([np.array(one) for one in each["run"]] for each in found)
            runs[row.name] = tuple(DraftRun(Ratio(above, below), kept) for above, below, kept in arrays)
    return DraftComparison(f"{which}: {title}", runs) if START.name in runs else None


def tables(work: Path) -> Iterator[TextTable]:
    """E[tau] of each row, and each row against the row that differs from it in one thing."""
    found = {f"{which}, T={t:g}": one for which in SETS for t in DEGREES if (one := compared(work, which, t))}
    if not found:
        return
    plan, rows, pairs = json.loads((work / PLAN).read_text()), [], []
    for name, row in BY_NAME.items():
        steps, runs = plan["steps"][name], [len(one.runs.get(name, ())) for one in found.values()]
        taus = ["{:.3f} ± {:.3f}".format(*one.tau(name)) if name in one.runs else "" for one in found.values()]
        seconds = steps * (plan["seconds"][name] or 0)
        rows.append((name, str(max(runs)), f"{steps * row.rows:,}", f"{seconds:,.0f}", *taus))
        if row.against:
            pairs.append((name, row.against, *(_difference(one, name, row.against) for one in found.values())))
    yield TextTable("", ("head", "seeds", "texts read", "seconds", *found), tuple(rows))
    yield TextTable("", ("head", "against", *found), tuple(pairs))
    print("\n".join(one.title for one in found.values()))


def _difference(one: DraftComparison, name: str, other: str) -> str:
    """Over the seeds that both have."""
    fewest = min(len(one.runs.get(each, ())) for each in (name, other))
    if not fewest:
        return ""
    fewer = DraftComparison("", {each: one.runs[each][:fewest] for each in (name, other)})
    paired = fewer.difference(name, other, by_run=fewest > 1)
    return f"{paired.percent:+.2f}% ± {paired.half_width(LEVEL):.2f}"


if __name__ == "__main__":
    main()
