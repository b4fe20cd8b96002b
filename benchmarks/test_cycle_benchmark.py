"""Decoding of the shipped pair: its speed beside plain decoding, and where the time outside the forwards goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

import reference.drafters.dynamic
import reference.drafters.static
from reference.cached_model import CachedModel
from reference.decode import Decoder, Decoding, Generation
from reference.drafters import Drafter, PlannedTree, Searched
from reference.drafters.dynamic import SearchedDrafting
from reference.drafters.model import PathDrafting
from reference.drafters.static import StaticDrafting
from reference.meter import Meter
from reference.models import DRAFT, Pair, load_pair
from reference.prompts import encode_prompts, load_prompts
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.tree_rows import TreeRows
from spectheory import Eagle2, SpecExec, Tree
from spectheory.otlp import NSS, Naive
from spectheory.search.frontier import Frontier
from spectheory.verify import TopDown

TREES = {
    "plain": Tree.chain(0),
    "chain of 4": Tree.chain(4),
    "14 nodes": Tree.k_ary(2, 3),
    "62 nodes": Tree.k_ary(2, 5),
}


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(draft=DRAFT)


@pytest.mark.benchmark(group="decode 64 tokens")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shape", TREES)
def test_decode(
    benchmark: BenchmarkFixture, pair: Pair, shape: str, temperature: float, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = encode_prompts(pair, load_prompts(count=1), 64)[0]
    decoder = Decoder(pair, PlannedTree(TREES[shape]), Sampling(temperature), TopDown(Naive()))
    texts: list[Generation] = []
    forwards: list[float] = []

    def decode() -> None:
        with Meter(pair) as meter:
            text = decoder.generate(prompt, 64, *streams(pair, 1))
        texts.append(text)
        forwards.append(sum(meter.since(text.started)))

    benchmark.pedantic(decode, rounds=5, warmup_rounds=1)
    share = 1 - sum(forwards) / sum(text.seconds for text in texts)
    tau = 1 + sum(texts[0].accepted) / len(texts[0].accepted)
    benchmark.extra_info |= {"share outside the forwards": round(share, 4), "tau": round(tau, 3)}
    with capsys.disabled():
        print(f"\n{shape}, temperature {temperature:g}: {share:.1%} outside the forwards, tau {tau:.2f}")


PARTS: dict[str, list[tuple[Any, str]]] = {
    "distributions and draws": [
        (Sampling, "distribution"),
        (Sampling, "draft_distribution"),
        (reference.drafters.static, "draw_into"),
        (reference.drafters.static, "largest"),
        (reference.drafters.dynamic, "largest"),
    ],
    "search": [(Frontier, "expand"), (Frontier, "drafted")],
    "rest of drafting": [
        (StaticDrafting, "grow"),
        (StaticDrafting, "_logits"),
        (SearchedDrafting, "grow"),
        (SearchedDrafting, "expand"),
        (PathDrafting, "logits"),
    ],
    "masks and positions": [(TreeRows, "add"), (TreeRows, "after"), (CachedModel, "forward_tree")],
    "around a forward": [(CachedModel, "_call"), (CachedModel, "forward")],
    "verification": [(Decoding, "_verify")],
    "caches": [(CachedModel, "keep"), (StaticDrafting, "commit"), (PathDrafting, "commit")],
    "rest of a cycle": [(Decoding, "cycle")],
}
"""Functions whose own time is added up, without the time of other functions of this table."""

CYCLES = 20
"""Number of cycles measured in each text."""

DECODERS: dict[str, Drafter] = {
    "14 nodes": PlannedTree(Tree.k_ary(2, 3)),
    "EAGLE-2": Searched(Eagle2(3, 4, 15)),
    "SpecExec": Searched(SpecExec(15, 15)),
}


class Stopwatch:
    """Seconds by name; the time of a nested call is counted once, under its own name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.inside = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            self.inside.append(0.0)
            try:
                return function(*args, **options)
            finally:
                whole = time.perf_counter() - started
                self.seconds[name] += whole - self.inside.pop()
                self.inside[-1] += whole

        return call


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", DECODERS)
def test_where_the_time_goes(pair: Pair, name: str, temperature: float, report: list[str]) -> None:
    drafter = DECODERS[name]
    verifier = TopDown(Naive() if isinstance(drafter, PlannedTree) else NSS())
    decoder = Decoder(pair, drafter, Sampling(temperature), verifier)
    prompts, watch = encode_prompts(pair, load_prompts(count=5), 64), Stopwatch()
    with torch.inference_mode(), ExitStack() as patches:
        warm, *texts = [Decoding(decoder, prompt, *streams(pair, 1)) for prompt in prompts]
        warm.cycle()
        for part, functions in PARTS.items():
            for owner, function in functions:
                patches.enter_context(mock.patch.object(owner, function, watch.timed(part, getattr(owner, function))))
        for model in (pair.target, pair.draft):
            patches.enter_context(mock.patch.object(model, "forward", watch.timed("model forwards", model.forward)))
        for text in texts:
            for _ in range(CYCLES):
                text.cycle()
    each = {part: seconds / (CYCLES * len(texts)) for part, seconds in watch.seconds.items()}
    whole = sum(each.values())
    report.append(f"{name}, temperature {temperature:g}: {whole * 1e3:.2f} ms a cycle")
    for part, seconds in sorted(each.items(), key=lambda item: -item[1]):
        report.append(f"    {part:20} {seconds * 1e6:8.0f} us {seconds / whole:6.1%}")
