"""What it costs to replay one tree with one verifier, beside a walk through the text and beside one pass over p and q.

Greedy trees: 100,000 positions of ranks, beside `cycle_starts`, the walk of one decoder through the same text. Sampled
text: 4,096 positions of 1,024 tokens, beside one sum over p and q; edges and siblings that trees share are warm.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from baselines import Beside
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory import Acceptance, DrawRule, GreedyText, Paths, Replays, TargetText, Tree, best_tree
from spectheory.otlp import NSS, RRS, Naive
from spectheory.verify import Block, Greedy, GreedyMultiPathBlock, TopDown, Traversal, Verifier
from tests.helpers import cycle_starts

RATES = Acceptance.by_rank([0.6, 0.15, 0.08, 0.04, 0.02])
POSITIONS, VOCABULARY = 4_096, 1_024
WALK, PASS = "cycle_starts, tree of {}", "one sum over p and q"
pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.5, min_rounds=5)


@pytest.fixture(scope="module")
def ranks() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.where(rng.random(100_000) < 0.9, rng.geometric(0.7, 100_000) - 1, -1)


@pytest.fixture(scope="module")
def sampled() -> Replays:
    rng = np.random.default_rng(0)
    p, q = (rng.dirichlet(np.full(VOCABULARY, 0.02), POSITIONS) + 1e-9 for _ in range(2))
    p, q = p / p.sum(1, keepdims=True), (q + p) / (q + p).sum(1, keepdims=True)
    return Replays([TargetText(np.array([rng.choice(VOCABULARY, p=row) for row in p]), p, q)])


@pytest.mark.parametrize("budget", [8, 64, 256])
def test_a_greedy_tree_over_100_000_positions(
    benchmark: BenchmarkFixture, beside: Beside, ranks: np.ndarray, budget: int
) -> None:
    tree, texts = best_tree(RATES, budget), Replays([GreedyText(ranks)])
    walk = WALK.format(budget)
    starts = beside.baseline(walk, lambda: cycle_starts(ranks, tree), 3)
    replayed = beside.time(benchmark, f"Greedy, tree of {budget}", lambda: texts.replay(tree, Greedy()), walk)
    assert replayed.cycles[0] == (starts < len(ranks) - tree.max_depth).sum()


@pytest.mark.parametrize(
    ("shape", "verifier"),
    [
        (Tree.chain(8), Block()),
        (Tree.chain(8), TopDown(Naive())),
        *((Tree.k_ary(2, 4), verifier) for verifier in (TopDown(NSS()), TopDown(Naive()), TopDown(RRS()), Traversal())),
        (Paths(3, 4), GreedyMultiPathBlock()),
    ],
    ids=str,
)
def test_sampled_text(
    benchmark: BenchmarkFixture, beside: Beside, sampled: Replays, shape: Any, verifier: Verifier
) -> None:
    (text,) = sampled.texts
    assert isinstance(text, TargetText)
    beside.baseline(PASS, lambda: (text.p.sum(), text.q.sum()), 5)
    rule = None if isinstance(shape, Paths) else DrawRule.IID if shape.is_chain else DrawRule.NO_REPLACEMENT
    name = f"{shape}, {verifier}"
    assert beside.time(benchmark, name, lambda: sampled.replay(shape, verifier, rule), PASS).tau > 1
