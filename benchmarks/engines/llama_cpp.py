"""llama-server on this machine: acceptance and tokens a second of chains, each written down before it is measured.

python -m benchmarks.engines.llama_cpp SERVER --target T.gguf --draft D.gguf --trace TRACE --prompts FILE --out FOLDER

TRACE is a greedy trace of the same pair on other prompts: tau is predicted by replay on its texts. Seconds of the draft
model are predicted by `spectheory.calibrate` on plain decoding and the chain of `CALIBRATED`. The same command
continues an interrupted run.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from timeit import repeat
from typing import Annotated, Any

import numpy as np
import requests
import torch
import typer

import spectheory as st
from benchmarks.engines import Given, begun, lookup_tau
from reference.measuring import processor
from reference.part_files import short_hash
from reference.prompts import load_prompts
from reference.tracing import replays
from spectheory.core.ratios import ratio_half_width
from spectheory.engines import Run
from spectheory.engines.llama_cpp import LOOKED_UP, export
from spectheory.hardware.gpus import Gpu
from spectheory.verify import Greedy

RUNS, CALIBRATED, NGRAM = "0,4,1,2,3,5,6,7,8,ngram:2,ngram:3,ngram:5", "4", "ngram:"
"""What is measured: chains of the draft model by length, 0 for plain decoding, and n-gram lookup."""
BUILD, QWEN = "b11434", "qwen2.5-1.5b-q4_k_m,qwen2.5-0.5b-q5_0"
PORT = 8117
URL = f"http://127.0.0.1:{PORT}"


def machine(threads: int) -> Gpu:
    """This machine as a "GPU": bandwidth of a large sum, operations of a large product in bfloat16."""
    torch.set_num_threads(threads)
    numbers, square = torch.ones(2**27), torch.ones(2048, 2048, dtype=torch.bfloat16)
    add, multiply = (min(repeat(call, number=1, repeat=50)) for call in (numbers.sum, lambda: square @ square))
    memory, flops = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), 2 * 2048**3 / multiply
    return Gpu("cpu", str(processor()["cpu"]), memory, numbers.nbytes / add, flops, None, ("measured here",), flops)


@contextmanager
def serving(server: Path, target: Path, draft: Path, run: str, threads: int) -> Iterator[None]:
    """A llama-server that drafts as `run` says."""
    flags = [server, "-m", target, "--port", PORT, "--parallel", 1, "--ctx-size", 2048, "--threads", threads]
    if run != "0":
        ngram, length = run.startswith(NGRAM), int(run.removeprefix(NGRAM))
        model, kind = (None, "ngram-simple") if ngram else (str(draft), "draft-simple")
        flags += export(length, version=BUILD, model=model, spec_type=kind).args
    running = subprocess.Popen([str(flag) for flag in flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while _status() != 200:
            if running.poll() is not None:
                raise RuntimeError(f"llama-server ended: run it by hand: {' '.join(map(str, flags))}")
            time.sleep(0.2)
        yield
    finally:
        running.terminate()
        running.wait()


def _status() -> int:
    try:
        return requests.get(f"{URL}/health", timeout=5).status_code
    except requests.ConnectionError:
        return 0


def measure(texts: list[str], new_tokens: int) -> dict[str, list[Any]]:
    """For each prompt: cycles, tokens and seconds after the first token, mean context, and a hash of the text.

    A text ends with the cycle in which it reaches `new_tokens`. It is cut here, because llama-server shortens the
    drafts at the end of a text.
    """
    rows = []
    for text in [texts[-1], *texts]:  # the first warms up
        tokens, cycles, timing = _streamed(text, new_tokens)
        emitted = timing["predicted_n"] - 1
        context = timing["prompt_n"] + emitted / 2
        rows.append((cycles, emitted, timing["predicted_ms"] / 1e3, context, short_hash(tokens[:new_tokens])))
    return dict(
        zip(("cycles", "emitted", "seconds", "context", "text"), map(list, zip(*rows[1:], strict=True)), strict=True)
    )


def _streamed(text: str, new_tokens: int) -> tuple[list[int], int, dict[str, Any]]:
    """The tokens up to the end of the cycle that reaches `new_tokens`, the cycles, and the server's timings there.

    The server counts the accepted tokens of a cycle when it begins, so a cycle ends where it has counted one token more
    than in all cycles before.
    """
    asked = {"prompt": text, "temperature": 0, "cache_prompt": False, "stream": True, "n_predict": 4 * new_tokens}
    more = {"return_tokens": True, "timings_per_token": True}
    tokens: list[int] = []
    cycles, timing = 0, dict[str, Any]()
    with requests.post(f"{URL}/completion", json=asked | more, stream=True, timeout=600) as answer:
        for line in answer.iter_lines():
            if not line.startswith(b"data: "):
                continue
            chunk = json.loads(line.removeprefix(b"data: "))
            tokens, timing = tokens + chunk["tokens"], chunk["timings"]
            ended = timing["predicted_n"] - 1 - timing.get("draft_n_accepted", 0)
            if ended > cycles:
                cycles = ended
                if len(tokens) >= new_tokens:
                    break
    return tokens, cycles, timing


def looked_up(length: int, text: list[int]) -> list[int]:
    """The draft of ngram-simple: what follows the last earlier place of the end of the text, without the last token."""
    size, last = min(LOOKED_UP, length), len(text) - 1
    for place in range(last - 1, size, -1):
        if text[place - size : place] == text[-size:]:
            found = text[place:last][:length]
            return found if len(found) >= size else []
    return []


def predicted_tau(run: str, trace: Path, known: st.Replays) -> list[float]:
    """Tau of a run, and its interval if replay has one."""
    if run.startswith(NGRAM):
        return [lookup_tau(trace, partial(looked_up, int(run.removeprefix(NGRAM))))]
    found = known.replay(st.Tree.chain(int(run)), Greedy())
    return [found.tau, *found.tau_interval()]


def main(
    server: Annotated[Path, typer.Argument(help="The program llama-server.")],
    target: Given,
    draft: Given,
    trace: Given,
    prompts: Given,
    out: Annotated[Path, typer.Option(envvar="OUT")],
    names: str = QWEN,
    skip: int = 48,
    count: int = 32,
    new_tokens: int = 64,
    threads: Annotated[int, typer.Option(help="Threads of the server.")] = 2,
    runs: Annotated[
        str, typer.Option(help="Lengths of the draft model's chains, 0 for plain, or ngram:LENGTH.")
    ] = RUNS,
) -> None:
    """Predict and measure llama-server with chains that the draft model drafts, or n-gram lookup."""
    texts = list(map(str, load_prompts(prompts, count, skip)))
    found, save = begun(out / "llama_cpp.json", texts, target, draft, new_tokens=new_tokens, threads=threads)
    if "tau" not in found:
        version = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stderr
        found["version"], known = version.splitlines()[0], replays(trace)
        found["tau"] = {run: predicted_tau(run, trace, known) for run in runs.split(",")}
        save()
    for run in runs.split(","):
        if "speed" not in found and {"0", CALIBRATED} <= set(found["measured"]):
            found["speed"] = predicted_speeds(found, machine(threads), *names.split(","))
            save()
        if run not in found["measured"]:
            with serving(server, target, draft, run, threads):
                found["measured"][run] = measure(texts, new_tokens)
            save()
    for run in found["measured"]:
        show(found, run)


def predicted_speeds(found: dict[str, Any], cpu: Gpu, target: str, draft: str) -> dict[str, float]:
    """Tokens a second of the draft model's chains by replayed tau and costs that are calibrated on two lengths."""
    runs = []
    for length in (0, int(CALIBRATED)):
        rows = found["measured"][str(length)]
        context, tau = float(np.mean(rows["context"])), sum(rows["emitted"]) / sum(rows["cycles"])
        rate, shape = sum(rows["emitted"]) / sum(rows["seconds"]), {"tokens": length + 1, "depth": length, "tau": tau}
        drafting: dict[str, Any] = {"kind": "speculative", **shape} if length else {}
        runs.append(Run.from_throughput(rate, context=context, **drafting))
    costs = st.calibrate(runs, gpu=cpu, target=target, draft=draft, engine="llama.cpp")
    latency = costs.latency(1, round(context))
    plain = latency.plain(round(context))
    return {
        run: latency.speedup(st.Tree.chain(int(run)), tau, round(context)) / plain
        for run, (tau, *_) in found["tau"].items()
        if not run.startswith(NGRAM)
    }


def show(found: dict[str, Any], run: str) -> None:
    """Print a run: tau and tokens a second, predicted and measured."""
    rows, guess = found["measured"][run], found["tau"][run][0]
    emitted, cycles, seconds = (np.array(rows[name]) for name in ("emitted", "cycles", "seconds"))
    tau, half, rate = emitted.sum() / cycles.sum(), ratio_half_width(emitted, cycles), emitted.sum() / seconds.sum()
    plain = found["measured"]["0"]["text"]
    equal = sum(a == b for a, b in zip(rows["text"], plain, strict=True))
    speed = f"{found['speed'][run]:.2f}" if run in found.get("speed", {}) else "-"
    print(
        f"{run}: tau {guess:.3f} predicted, {tau:.3f} +- {half:.3f} measured; tokens a second {speed} predicted, "
        f"{rate:.2f} measured; {equal} of {len(plain)} texts as plain",
        flush=True,
    )


if __name__ == "__main__":
    typer.run(main)
