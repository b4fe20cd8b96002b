"""Without Numba, as in a browser, everything but the reference decoder runs, with the same results."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.core.chance import draw
from spectheory.core.machine import compiler

RATES = [[0.3, 0.05, 0.4, 0.1], [0.2, 0.35, 0.02, 0.2], [0.5, 0.1, 0.12, 0.03]]


def results(budget: int) -> dict[str, Any]:
    """Results of everything that Numba compiles, which JSON can hold."""
    rates = st.Acceptance.by_depth_and_rank(RATES)
    plan = st.plan(rates, st.Latency.constant(draft_seconds=0.05), max_budget=16)
    rng = np.random.default_rng(0)
    texts = st.Replays([st.GreedyText(rng.integers(-1, 3, 60), 3)])
    p, q = rng.dirichlet(np.ones(4), 40), rng.dirichlet(np.ones(4), 40)
    tokens = np.array([draw(row, rng) for row in p])
    sampled = st.Replays([st.TargetText(tokens, p, q)])
    goose = st.goose.optimal_tree(0.6, 0.3, 60)
    return {
        "exact": st.best_tree(rates, budget).parent.tolist(),
        "stationary": st.best_tree(st.Acceptance.by_rank(RATES[0]), budget).parent.tolist(),
        "large": st.best_tree(st.Acceptance.by_rank([0.6, 0.2, 0.1]), 6000).parent[-3:].tolist(),
        "table": st.yield_table(rates, 24, max_depth=5).tolist(),
        "plan": [plan.tree.parent.tolist(), plan.speedup],
        "greedy": texts.replay(st.Tree.k_ary(2, 2), st.verify.Greedy()).tau,
        "sampled": sampled.replay(st.Tree.k_ary(2, 2), st.verify.Traversal(), st.DrawRule.NO_REPLACEMENT).tau,
        "goose": str(goose),
        "tokens": tokens.tolist(),
    }


def test_the_results_are_the_same_without_numba() -> None:
    code = "import sys, json; sys.modules['numba'] = None\n"
    code += "from tests.docs.test_without_numba import results\nprint(json.dumps(results(512)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(results(512)))


def test_without_numba_a_body_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert compiler(cache=True)(results) is results
