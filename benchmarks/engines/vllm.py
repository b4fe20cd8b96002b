"""vLLM on this GPU: acceptance and throughput of chains, each written down before it is measured.

python -m benchmarks.engines.vllm --target FOLDER --draft FOLDER --trace TRACE --prompts FILE --gpu h200_sxm --out OUT

TRACE is a greedy trace of the same pair on other prompts: tau of the draft model is predicted by replay on its texts,
and throughput by `spectheory.Deployment` with the shipped costs. The same command continues an interrupted run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer

import spectheory as st
from benchmarks.engines import Given, begun, lookup_tau
from reference.drafters.lookup import TextIndex
from reference.prompts import load_prompts
from reference.tracing import replays
from spectheory.hardware.runs import Run
from spectheory.verify import Greedy

PLAIN, LENGTHS, BATCHES = "none:0", (1, 3, 5), (1, 8, 32)
RUNS = (PLAIN, *(f"{method}:{length}" for length in LENGTHS for method in ("draft_model", "ngram")))
"""What is measured, in order of worth: the method of vLLM and the number of drafted tokens."""
CALIBRATED = (PLAIN, "draft_model:3")
CONTEXT = 256
"""Tokens of each text for which times are computed."""
GRAMS = (4, 3, 2)
"""Lengths of the n-grams that are looked up."""
NAMES = "qwen2.5-1.5b,qwen2.5-0.5b"
FEWEST = 8
"""Number of prompts at batch 1; larger batches decode all."""
COUNTERS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos")


def measured(run: str, target: str, draft: str, texts: list[str], new_tokens: int, turn: Connection) -> None:
    """Start an engine, wait for the turn, and send throughput after the first token and counters by batch size."""
    compiled = str(Path(tempfile.gettempdir(), f"vllm-{run}"))  # engines that start at once share no folder
    os.environ |= {"VLLM_CACHE_ROOT": compiled, "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    vllm: Any = import_module("vllm")
    method, _, length = run.partition(":")
    config: dict[str, Any] = {"method": method, "num_speculative_tokens": int(length)}
    config |= (
        {"model": draft} if method == "draft_model" else {"prompt_lookup_max": GRAMS[0], "prompt_lookup_min": GRAMS[-1]}
    )
    engine = vllm.LLM(
        model=target,
        dtype="bfloat16",
        max_model_len=1024,
        max_num_seqs=max(BATCHES),
        gpu_memory_utilization=0.05,
        kv_cache_memory_bytes=2**32,
        enable_prefix_caching=False,
        disable_log_stats=False,
        **({} if run == PLAIN else {"speculative_config": config}),
    )

    def seconds(group: list[str], tokens: int) -> float:
        sampling, started = vllm.SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True), time.perf_counter()
        engine.generate(group, sampling, use_tqdm=False)
        return time.perf_counter() - started

    def counted() -> dict[str, Any]:
        found = {metric.name.removeprefix("vllm:spec_decode_"): metric for metric in engine.get_metrics()}
        return {name: getattr(found[name], "values", None) or found[name].value for name in COUNTERS if name in found}

    turn.send("ready")
    turn.recv()
    rows: dict[str, Any] = {"version": vllm.__version__}
    for batch in BATCHES:
        groups = [texts[i : i + batch] for i in range(0, FEWEST if batch == 1 else len(texts), batch)]
        for tokens in (1, new_tokens):
            seconds(groups[0], tokens)  # warms up
        before = counted()
        taken = sum(seconds(group, new_tokens) - seconds(group, 1) for group in groups)
        emitted = (new_tokens - 1) * sum(map(len, groups))
        rate = {"emitted": emitted, "tokens_per_second": emitted / taken}
        rows[str(batch)] = rate | {"before": before, "after": counted()}
    turn.send(rows)


def looked_up(length: int, text: list[int]) -> list[int]:
    """What followed the last earlier occurrence of the longest n-gram at the end of the text."""
    index = TextIndex(GRAMS)
    index.extend(text)
    return index.match(length).tokens


def predicted(gpu: str, names: str, trace: Path) -> dict[str, Any]:
    """Tau of each length, and by batch size the throughput of plain decoding (0) and of each length."""
    target, draft = names.split(",")
    known, taus = replays(trace), {0: 1.0}
    taus |= {length: known.replay(st.Tree.chain(length), Greedy()).tau for length in LENGTHS}
    speeds = {}
    for batch in BATCHES:
        times = st.Deployment(gpu, target, draft, engine="vllm", context=CONTEXT).latency(batch)
        rates = {n: times.speedup(st.Tree.chain(n), tau, CONTEXT) / times.plain(CONTEXT) for n, tau in taus.items()}
        speeds[str(batch)] = {str(n): batch * rate for n, rate in rates.items()}
    lookup = {str(n): lookup_tau(trace, partial(looked_up, n)) for n in LENGTHS}
    return {"tau": {str(n): tau for n, tau in taus.items()}, "tokens_per_second": speeds, "lookup_tau": lookup}


def calibrated(found: dict[str, Any], names: str) -> dict[str, dict[str, float]]:
    """Throughput by batch size and length, from predicted tau and costs that follow the plain runs and one length."""
    gpu, (target, draft) = found["provenance"]["settings"]["gpu"], names.split(",")
    runs, speeds = [], {}
    for run in CALIBRATED:
        length = int(run.partition(":")[2])
        for batch in BATCHES:
            row = found["measured"][run][str(batch)]
            shape: Any = {"kind": "speculative", "tokens": length + 1, "depth": length, "tau": tau_of(run, row)}
            rate = row["tokens_per_second"]
            runs.append(Run.from_throughput(rate, context=CONTEXT, batch=batch, **(shape if length else {})))
    costs = st.calibrate(runs, gpu=gpu, target=target, draft=draft, engine="vllm")
    for batch in BATCHES:
        times = costs.latency(batch, CONTEXT)
        rates = {n: times.speedup(st.Tree.chain(int(n)), tau, CONTEXT) for n, tau in found["predicted"]["tau"].items()}
        speeds[str(batch)] = {n: batch * rate / times.plain(CONTEXT) for n, rate in rates.items()}
    return speeds


def tau_of(run: str, row: dict[str, Any]) -> float:
    """Tokens a step; of n-grams, which do not draft in every step, counted by the tokens that were emitted."""
    drafts, accepted = (row["after"].get(name, 0) - row["before"].get(name, 0) for name in COUNTERS[::2])
    return 1 + accepted / max(row["emitted"] - accepted if run.startswith("ngram") else drafts, 1)


def main(
    target: Given,
    draft: Given,
    trace: Given,
    prompts: Given,
    gpu: Annotated[str, typer.Option(help="The GPU, as in `spectheory list gpus`.")],
    out: Annotated[Path, typer.Option(envvar="OUT")],
    names: str = NAMES,
    skip: int = 48,
    count: int = 64,
    new_tokens: int = 128,
    wait: Annotated[Path | None, typer.Option(help="Measure once this file exists; engines start before.")] = None,
) -> None:
    """Predict and measure vLLM with chains of 1, 3 and 5 tokens at 1, 8 and 32 sequences.

    All engines start at once, which takes minutes, and measure one after the other.
    """
    texts = list(map(str, load_prompts(prompts, count, skip)))
    found, save = begun(out / "vllm.json", texts, target, draft, new_tokens=new_tokens, gpu=gpu)
    spawn, engines = get_context("spawn"), {}
    for run in RUNS:
        if run not in found["measured"]:
            engines[run], theirs = spawn.Pipe()
            spawn.Process(target=measured, args=(run, str(target), str(draft), texts, new_tokens, theirs)).start()
            theirs.close()
    for run, engine in engines.items():
        print(run, received(engine), file=sys.stderr, flush=True)
    while wait and not wait.exists():
        time.sleep(1)
    if "predicted" not in found:
        found["predicted"] = predicted(gpu, names, trace)
        save()
    for run, engine in engines.items():
        with suppress(OSError):
            engine.send("go")
        if rows := received(engine):
            found["measured"][run] = rows
            save()
    speeds = calibrated(found, names) if found["measured"].keys() >= {*CALIBRATED} else {}
    for run in RUNS:
        if run in found["measured"]:
            show(found, run, speeds)


def received(engine: Connection) -> Any:
    """What an engine sends, None if it ended; the same command tries it again."""
    try:
        return engine.recv()
    except EOFError:
        return None


def show(found: dict[str, Any], run: str, speeds: dict[str, dict[str, float]]) -> None:
    """Print a run: throughput and tau, measured and predicted, and calibrated `speeds` of the draft model."""
    method, _, length = run.partition(":")
    for batch in map(str, BATCHES):
        row, guess = found["measured"][run][batch], found["predicted"]
        taus = guess["lookup_tau"] if method == "ngram" else guess["tau"]
        said = f"tau {tau_of(run, row):.3f}, predicted {taus[length]:.3f}; "
        said += f"{row['tokens_per_second']:.0f} tokens a second"
        if method != "ngram":
            said += f", predicted {guess['tokens_per_second'][batch][length]:.0f}"
            said += f", calibrated {speeds[batch][length]:.0f}" if speeds else ""
        print(f"{run}, batch {batch}: {said}", flush=True)


if __name__ == "__main__":
    typer.run(main)
