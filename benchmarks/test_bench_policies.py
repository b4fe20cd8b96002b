"""Times of drafting policies without draft forwards, as ratios to the published algorithms in plain Python.

Both ask the same draft, whose answers lie ready in a table, so that little but the policy is timed; both give the same
probabilities. The plain renderings, too, look only at as many children of a node as could be used. Least times are
compared, since a busy machine only adds.
"""

from __future__ import annotations

from heapq import nsmallest
from time import process_time
from typing import Any

import numpy as np
import pytest
from baselines import Beside
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory.search import DraftModel, MarkovDraft, OptTree, Salf, SpecExec

BUDGET, VOCABULARY = 60, 1_000
BATCH, THRESHOLD = 10, 0.6

Node = tuple[float, int, int, tuple[int, ...]]
"""(-probability, depth, rank, path of tokens)."""

ROOT: Node = (-1.0, 0, 0, ())


def measured_like() -> MarkovDraft:
    """Distributions that fall with rank as a language model's do, each on an order of tokens of its own."""
    rng = np.random.default_rng(0)
    distribution = np.arange(1, VOCABULARY + 1.0) ** -rng.uniform(1.5, 3, (VOCABULARY, 1))
    return MarkovDraft(rng.permuted(distribution / distribution.sum(1, keepdims=True), axis=1))


def children(draft: DraftModel, nodes: list[Node], n: int) -> list[Node]:
    tokens, distribution = draft.expand([node[3] for node in nodes])
    rows = zip(nodes, tokens[:, :n].tolist(), distribution[:, :n].tolist(), strict=True)
    return [
        (value * q, depth + 1, rank, (*path, token))
        for (value, depth, _, path), row, probabilities in rows
        for rank, (token, q) in enumerate(zip(row, probabilities, strict=True))
    ]


def opt_tree(draft: DraftModel, n: int) -> list[Node]:
    layer = nsmallest(n, children(draft, [ROOT], n))
    tree, before, depth = layer, 0.0, 1
    while depth < n and -sum(node[0] for node in nsmallest(n, tree)) - before > 0:
        before = -sum(node[0] for node in nsmallest(n, tree))
        layer = nsmallest(n, children(draft, layer, n))
        tree, depth = tree + layer, depth + 1
    return nsmallest(n, tree)


def salf(draft: DraftModel, n: int, threshold: float, batch: int) -> list[Node]:
    tree, queue = [], [ROOT]
    while True:
        popped, queue = queue[:batch], queue[batch:]
        tree = nsmallest(n + 1, tree + popped)
        epsilon = -tree[-1][0] if len(tree) > n else 0.0
        chosen = [node for node in popped if -node[0] > epsilon]
        if not chosen or -sum(node[0] for node in chosen) < threshold:
            return tree[1:]
        queue = nsmallest(n + 1, queue + children(draft, chosen, n))


@pytest.fixture(scope="module")
def draft() -> MarkovDraft:
    found = measured_like()
    found.expand([()])
    return found


CASES: list[tuple[Any, Any, tuple[Any, ...]]] = [
    (OptTree(BUDGET), opt_tree, (BUDGET,)),
    (Salf(BUDGET, THRESHOLD, BATCH), salf, (BUDGET, THRESHOLD, BATCH)),
    (SpecExec(BUDGET, BATCH), salf, (BUDGET, 0, BATCH)),
    (SpecExec(1024, 32), salf, (1024, 0, 32)),
]
"""A policy, its plain rendering, and its settings; that of SpecExec is Algorithm 2 of SALF & TALF without its stop."""
pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.5, min_rounds=20)


@pytest.mark.parametrize(("policy", "plain", "settings"), CASES, ids=repr)
def test_policy(
    benchmark: BenchmarkFixture, beside: Beside, draft: MarkovDraft, policy: Any, plain: Any, settings: Any
) -> None:
    baseline = f"plain {policy!r}"
    nodes = beside.baseline(baseline, lambda: plain(draft, *settings), 20)
    found = beside.time(benchmark, repr(policy), lambda: policy.grow(draft), baseline)
    assert found.probability[1:].tolist() == [-node[0] for node in nodes]
