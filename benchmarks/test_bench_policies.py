"""Times of drafting policies without draft forwards, as ratios to the published algorithms in plain Python.

Both ask the same draft, whose answers lie ready in a table, so that little but the policy is timed; both give the same
probabilities. The plain renderings, too, look only at as many children of a node as could be used. Least times are
compared, since a busy machine only adds.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from baselines import Beside
from pytest_benchmark.fixture import BenchmarkFixture

from spectheory.search import MarkovDraft, OptTree, Salf, SpecExec
from tests.plain_searches import ROOT, Children, Node, plain_opt_tree, plain_salf

BUDGET, VOCABULARY = 60, 1_000
BATCH, THRESHOLD = 10, 0.6


def measured_like() -> MarkovDraft:
    """Distributions that fall with rank as a language model's do, each on an order of tokens of its own."""
    rng = np.random.default_rng(0)
    distribution = np.arange(1, VOCABULARY + 1.0) ** -rng.uniform(1.5, 3, (VOCABULARY, 1))
    return MarkovDraft(rng.permuted(distribution / distribution.sum(1, keepdims=True), axis=1))


def children_of(draft: MarkovDraft, most: int) -> Children:
    """The most probable children of a node, from a table."""
    rows = [rows[:, :most].tolist() for rows in draft.expand([(token,) for token in range(VOCABULARY)])]

    def children(node: Node) -> list[Node]:
        last = draft.start if node is ROOT else node[4]
        ranked = enumerate(zip(*(of[last] for of in rows), strict=True))
        return [(node[0] * q, node[1] + 1, rank, node, token) for rank, (token, q) in ranked]

    return children


@pytest.fixture(scope="module")
def draft() -> MarkovDraft:
    found = measured_like()
    found.expand([()])
    return found


CASES: list[tuple[Any, Any, tuple[Any, ...]]] = [
    (OptTree(BUDGET), plain_opt_tree, (BUDGET, 0.0)),
    (Salf(BUDGET, THRESHOLD, BATCH), plain_salf, (BUDGET, THRESHOLD, BATCH)),
    (SpecExec(BUDGET, BATCH), plain_salf, (BUDGET, 0.0, BATCH)),
    (SpecExec(1024, 32), plain_salf, (1024, 0.0, 32)),
]
"""A policy, its plain rendering, and its settings; that of SpecExec is Algorithm 2 of SALF & TALF without its stop."""
pytestmark = pytest.mark.benchmark(timer=process_time, max_time=0.5, min_rounds=20)


@pytest.mark.parametrize(("policy", "plain", "settings"), CASES, ids=repr)
def test_policy(
    benchmark: BenchmarkFixture, beside: Beside, draft: MarkovDraft, policy: Any, plain: Any, settings: Any
) -> None:
    baseline, children = f"plain {policy!r}", children_of(draft, settings[0])
    nodes, *_ = beside.baseline(baseline, lambda: plain(children, *settings), 20)
    found = beside.time(benchmark, repr(policy), lambda: policy.grow(draft), baseline)
    assert found.probability[1:].tolist() == [-node[0] for node in nodes]
