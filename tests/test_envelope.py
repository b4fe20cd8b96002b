"""Envelopes of EAGLE-2: against growing the tree node by node, and against the free optimum."""

from __future__ import annotations

import numpy as np
import pytest

import spectheory as st
from spectheory.search.envelope import Envelopes

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
        children = {
            (*path, rank): pool.get(path, 1.0) * row[rank] for path in beam for rank in range(min(branching, 3))
        }
        pool |= children
        beam = sorted(children, key=lambda path, of=children: -of[path])[:branching]
    return 1 + sum(sorted(pool.values(), reverse=True)[:nodes])


@pytest.mark.parametrize("token_seconds", [0.001, 0.02, 0.1])
def test_the_fastest_envelope_is_the_best_of_all(token_seconds: float) -> None:
    place = latency(token_seconds)
    found = Envelopes(RATES, max_levels=4, max_branching=3, max_budget=20).fastest(place, 512)
    speedups = {}
    for levels in range(1, 5):
        for branching in range(1, 4):
            for nodes in range(1, min(20, branching + (levels - 1) * branching**2) + 1):
                seconds = place.draft(1, 512) + (levels - 1) * place.draft(branching, 512)
                seconds += place.target(nodes + 1, 512) + place.overhead_seconds
                speedups[levels, branching, nodes] = grown(levels, branching, nodes) * place.plain(512) / seconds
    assert found.speedup == pytest.approx(max(speedups.values()))
    assert speedups[found.levels, found.branching, found.nodes] == pytest.approx(found.speedup)
    assert found.block_efficiency == pytest.approx(st.block_efficiency(found.tree, RATES))
    assert found.tree.max_depth <= found.levels
    assert found.tree.rank.max() < found.branching


def test_no_envelope_yields_more_than_the_optimum() -> None:
    yields = Envelopes(RATES, max_levels=12, max_branching=3, max_budget=12).yields()
    best = st.yield_table(RATES, 12, max_depth=12)[-1]
    assert (yields <= best + 1e-12).all()
    assert yields[:4] == pytest.approx(best[:4])
    assert (np.diff(yields) >= 0).all()


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="must be at least 1, got 8, 0 and 64"):
        Envelopes(RATES, max_branching=0)
