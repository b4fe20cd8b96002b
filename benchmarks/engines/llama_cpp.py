"""llama-server on this machine: acceptance and tokens a second of chains, each written down before it is measured.

python -m benchmarks.engines.llama_cpp SERVER --target T.gguf --draft D.gguf --trace TRACE --prompts FILE --out FOLDER

TRACE is a greedy trace of the same pair on other prompts: tau is predicted by replay on its texts. Seconds are
predicted by `spectheory.calibrate` on plain decoding and the chain of `CALIBRATED`. The same command continues an
interrupted run.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from timeit import repeat
from typing import Annotated, Any

import numpy as np
import requests
import torch
import typer

import spectheory as st
from benchmarks.engines import Given, begun
from reference.measuring import processor
from reference.part_files import short_hash
from reference.prompts import load_prompts
from reference.tracing import replays
from spectheory.core.ratios import ratio_half_width
from spectheory.engines import Run
from spectheory.engines.llama_cpp import export
from spectheory.hardware.gpus import Gpu
from spectheory.verify import Greedy

LENGTHS, CALIBRATED = range(9), 4
"""Numbers of drafted tokens that are measured, and the one that calibrates; 0 is plain decoding."""
BUILD, QWEN = "b11434", "qwen2.5-1.5b-q4_k_m,qwen2.5-0.5b-q5_0"
PORT = 8117
URL = f"http://127.0.0.1:{PORT}"


def machine(threads: int) -> Gpu:
    """This machine as a "GPU": bandwidth of a large sum and operations of a large product, the best of five runs."""
    torch.set_num_threads(threads)
    numbers, square = torch.ones(2**28, dtype=torch.uint8), torch.ones(2048, 2048)
    add, multiply = (
        min(repeat(call, number=1)) for call in (lambda: numbers.view(torch.int64).sum(), lambda: square @ square)
    )
    memory, flops = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), 2 * 2048**3 / multiply
    return Gpu("cpu", str(processor()["cpu"]), memory, len(numbers) / add, flops, None, ("measured here",), flops)


@contextmanager
def serving(server: Path, target: Path, draft: Path, length: int, threads: int) -> Iterator[None]:
    """A llama-server that drafts `length` tokens."""
    flags = [server, "-m", target, "--port", PORT, "--parallel", 1, "--ctx-size", 2048, "--threads", threads]
    if length:
        flags += export(length, version=BUILD, model=str(draft)).args
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


def measure(texts: list[str], length: int, new_tokens: int) -> dict[str, list[Any]]:
    """For each prompt: cycles, tokens and seconds after the first token, mean context, and a hash of the text.

    A text ends with the cycle in which it reaches `new_tokens`. It is cut here, because llama-server shortens the
    drafts at the end of a text.
    """
    rows = []
    for text in [texts[-1], *texts]:  # the first warms up
        tokens, timing = _streamed(text, length, new_tokens)
        drafted, emitted = timing.get("draft_n", 0), timing["predicted_n"] - 1
        cycles, context = drafted // length if length else emitted, timing["prompt_n"] + emitted / 2
        rows.append((cycles, emitted, timing["predicted_ms"] / 1e3, context, short_hash(tokens[:new_tokens])))
    return dict(
        zip(("cycles", "emitted", "seconds", "context", "text"), map(list, zip(*rows[1:], strict=True)), strict=True)
    )


def _streamed(text: str, length: int, new_tokens: int) -> tuple[list[int], dict[str, Any]]:
    """The tokens up to the end of the cycle that reaches `new_tokens`, and the server's timings there."""
    asked = {"prompt": text, "temperature": 0, "cache_prompt": False, "stream": True, "n_predict": 4 * new_tokens}
    more = {"return_tokens": True, "timings_per_token": True}
    tokens: list[int] = []
    timing: dict[str, Any] = {}
    with requests.post(f"{URL}/completion", json=asked | more, stream=True, timeout=600) as answer:
        for line in answer.iter_lines():
            if not line.startswith(b"data: "):
                continue
            chunk = json.loads(line.removeprefix(b"data: "))
            now = chunk["timings"]
            if len(tokens) >= new_tokens and (length == 0 or now.get("draft_n") != timing.get("draft_n")):
                break
            tokens += chunk["tokens"]
            timing = now
    return tokens, timing


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
) -> None:
    """Predict and measure llama-server with chains of 0 to 8 tokens."""
    texts = list(map(str, load_prompts(prompts, count, skip)))
    found, save = begun(out / "llama_cpp.json", texts, target, draft, new_tokens=new_tokens, threads=threads)
    if "tau" not in found:
        version = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stderr
        found["version"], known = version.splitlines()[0], replays(trace)
        chains = [known.replay(st.Tree.chain(length), Greedy()) for length in LENGTHS[1:]]
        found["tau"] = [1.0, *(one.tau for one in chains)]
        found["tau_interval"] = [[1.0, 1.0], *(one.tau_interval() for one in chains)]
        save()
    for length in (0, CALIBRATED, *LENGTHS):
        if "speed" not in found and {"0", str(CALIBRATED)} <= set(found["measured"]):
            found["speed"] = predicted_speeds(found, machine(threads), *names.split(","))
            save()
        if str(length) not in found["measured"]:
            with serving(server, target, draft, length, threads):
                found["measured"][str(length)] = measure(texts, length, new_tokens)
            save()
            show(found, length)
    for length in LENGTHS:
        show(found, length)


def predicted_speeds(found: dict[str, Any], cpu: Gpu, target: str, draft: str) -> list[float]:
    """Tokens a second of each length by replayed tau and costs that are calibrated on two lengths."""
    runs = []
    for length in (0, CALIBRATED):
        rows = found["measured"][str(length)]
        context, tau = float(np.mean(rows["context"])), sum(rows["emitted"]) / sum(rows["cycles"])
        rate, shape = sum(rows["emitted"]) / sum(rows["seconds"]), {"tokens": length + 1, "depth": length, "tau": tau}
        drafting: dict[str, Any] = {"kind": "speculative", **shape} if length else {}
        runs.append(Run.from_throughput(rate, context=context, **drafting))
    costs = st.calibrate(runs, gpu=cpu, target=target, draft=draft, engine="llama.cpp")
    latency = costs.latency(1, round(context))
    plain = latency.plain(round(context))
    return [
        latency.speedup(st.Tree.chain(length), tau, round(context)) / plain
        for length, tau in zip(LENGTHS, found["tau"], strict=True)
    ]


def show(found: dict[str, Any], length: int) -> None:
    """Print a length: tau and tokens a second, predicted and measured."""
    rows = found["measured"][str(length)]
    emitted, cycles, seconds = (np.array(rows[name]) for name in ("emitted", "cycles", "seconds"))
    tau, half, rate = emitted.sum() / cycles.sum(), ratio_half_width(emitted, cycles), emitted.sum() / seconds.sum()
    plain = found["measured"]["0"]["text"]
    equal = sum(a == b for a, b in zip(rows["text"], plain, strict=True))
    speed = f"{found['speed'][length]:.2f}" if "speed" in found else "-"
    print(
        f"chain of {length}: tau {found['tau'][length]:.3f} predicted, {tau:.3f} +- {half:.3f} measured; tokens a "
        f"second {speed} predicted, {rate:.2f} measured; {equal} of {len(plain)} texts as plain",
        flush=True,
    )


if __name__ == "__main__":
    typer.run(main)
