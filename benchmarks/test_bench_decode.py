"""Decoding of the shipped pair: its speed beside plain decoding, and the share of its time outside the forwards."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from reference.decode import Decoder, Generation
from reference.drafters import PlannedTree
from reference.meter import Meter
from reference.models import DRAFT, Pair, load_pair
from reference.prompts import encode_prompts, load_prompts
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Tree
from spectheory.otlp import Naive
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
