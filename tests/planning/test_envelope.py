"""Tests of the envelopes of EAGLE-2 against trees grown node by node, and against the best trees without limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as hs

import spectheory as st
from spectheory.planning.envelope import Envelope, Envelopes
from spectheory.search.beam import beam, draft_scores
from tests.planning.test_plan import all_trees
from tests.search.test_search import tables

RATES = st.Acceptance.by_depth_and_rank([[0.6, 0.2, 0.1], [0.5, 0.25, 0.05]])
TOKENS = np.array([1, 2, 4, 8, 16, 32, 64])


def latency(token_seconds: float, draft_seconds: float = 0.05) -> st.Latency:
    target, draft = 1 + token_seconds * TOKENS, draft_seconds + 0.001 * TOKENS
    return st.Latency(TOKENS, np.array([512]), target[None], draft[None], overhead_seconds=0.02)


def grown(levels: int, branching: int, nodes: int) -> float:
    """Block efficiency of the envelope, with paths of ranks in a dictionary."""
    beam: list[tuple[int, ...]] = [()]
    pool: dict[tuple[int, ...], float] = {}
    for depth in range(levels):
        row = RATES.table[min(depth, len(RATES.table) - 1)]
        children: dict[tuple[int, ...], float] = {
            (*path, rank): pool.get(path, 1.0) * row[rank] for path in beam for rank in range(min(branching, 3))
        }
        pool |= children
        beam = sorted(children, key=lambda path, of=children: -of[path])[:branching]
    return 1 + sum(sorted(pool.values(), reverse=True)[:nodes])


def test_no_envelope_yields_more_than_the_optimum() -> None:
    yields = Envelopes(RATES, max_levels=12, max_branching=3, max_budget=12).yields()
    best = st.yield_table(RATES, 12, max_depth=12)[-1]
    assert (yields <= best + 1e-12).all()
    assert yields[:4] == pytest.approx(best[:4])
    assert (np.diff(yields) >= 0).all()


def test_no_limit_is_there_that_was_not_asked_for() -> None:
    """A chain of any length is an envelope of branching 1; one level of 12 ranks is an envelope of branching 12."""
    place = st.Latency.constant(draft_seconds=0.05)
    chain = st.plan(st.Acceptance.by_rank([0.9]), place)
    found = Envelopes(st.Acceptance.by_rank([0.9])).fastest([place], 0, np.ones(1))
    assert chain.tree.budget > 8
    assert (found.envelope, found.tree) == (Envelope(chain.tree.budget, 1, chain.tree.budget), chain.tree)
    assert found.speedups[0] == pytest.approx(chain.speedup, rel=1e-12)
    wide = st.Acceptance.by_depth_and_rank([[0.08] * 12, [0.0] * 12])
    assert Envelopes(wide).fastest([place], 0, np.ones(1)).envelope.branching == 12


@given(table=tables(), token_seconds=hs.floats(0, 0.1), draft_seconds=hs.floats(1e-9, 0.2))
@settings(derandomize=True)
@example(table=np.array([[0.1, 0.8]]), token_seconds=0.01, draft_seconds=0.05)
@example(table=np.array([[1 + 5e-10]]), token_seconds=0.01, draft_seconds=0.05)
def test_an_envelope_is_worth_what_its_tree_is(table: np.ndarray, token_seconds: float, draft_seconds: float) -> None:
    acceptance, place = st.Acceptance(table), latency(token_seconds, draft_seconds)
    envelopes = Envelopes(acceptance, max_budget=12)
    best = st.yield_table(acceptance, 12, max_depth=12)[-1]
    assert (envelopes.yields() <= best * (1 + 1e-12)).all()
    if not draft_scores(acceptance)[0].any():
        return
    found = envelopes.fastest([place], 512, np.ones(1))
    assert found.block_efficiency == pytest.approx(st.block_efficiency(found.tree, acceptance), rel=1e-12)
    assert found.speedups[0] <= st.plan(acceptance, place, max_budget=12).speedup * (1 + 1e-12)
    assert found.tree.max_depth <= found.envelope.levels
    assert found.tree.rank.max() < found.envelope.branching


@given(table=tables(), width=hs.integers(1, 3), levels=hs.integers(1, 4))
@settings(derandomize=True)
def test_a_beam_is_the_best_tree_of_its_limits_where_rates_fall(table: np.ndarray, width: int, levels: int) -> None:
    """Against all trees of up to 6 nodes."""
    acceptance = st.Acceptance(-np.sort(-table, axis=1))
    grown = [np.ones(1), *(g.yields() for g in beam(acceptance.table, draft_scores(acceptance), width, levels, 6))][-1]
    within = [t for t in all_trees(6) if not t.budget or (t.max_depth <= levels and max(t.level_widths()) <= width)]
    worth = np.array([st.block_efficiency(tree, acceptance) for tree in within])
    budget = np.array([tree.budget for tree in within])
    best = [worth[budget <= n].max() for n in range(7)]
    assert np.pad(grown, (0, 7 - len(grown)), mode="edge") == pytest.approx(best, rel=1e-12)
