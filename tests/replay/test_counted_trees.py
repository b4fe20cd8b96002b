"""Trees from counted paths of ranks: against all trees by plain counting, and against the rates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import spectheory as st
from spectheory.planning.replayed import WEIGHT, counted_paths
from spectheory.replay import GreedyText
from tests.replay.inputs import RATES

RANKS = 3


def plain_values(
    texts: list[GreedyText], starts: list[np.ndarray], paths: list[tuple[int, ...]]
) -> dict[tuple[int, ...], float]:
    """The value of each path, counted start by start; parents and smaller siblings come first in `paths`."""
    values: dict[tuple[int, ...], float] = {(): 1.0}
    chances: dict[tuple[int, ...], float] = {}
    for path in paths:
        above, rank = path[:-1], path[-1]
        visits = hits = 0.0
        for text, weights in zip(texts, starts, strict=True):
            for start, weight in enumerate(weights):
                ends = [start + depth for depth in range(len(path))]
                taken = [
                    text.ranks[min(d, len(text.ranks) - 1), i] if i < len(text) else -1 for d, i in enumerate(ends)
                ]
                if tuple(taken[:-1]) == above:
                    visits, hits = visits + weight, hits + weight * (taken[-1] == rank)
        own = (hits + WEIGHT * RATES.row(len(above))[rank]) / (visits + WEIGHT)
        chances[path] = min(own, chances.get((*above, rank - 1), 1.0))
        values[path] = values[above] * chances[path]
    return values


@pytest.mark.parametrize("seed", range(6))
def test_no_tree_has_a_higher_counted_value(seed: int) -> None:
    """Among all trees of 4 nodes of up to 3 children and 3 levels; a draft whose ranks depend on the depth too."""
    rng = np.random.default_rng(seed)
    shape = (2, 700) if seed % 2 else 700
    texts = [GreedyText(rng.choice(5, shape, p=[0.1, 0.4, 0.3, 0.1, 0.1]) - 1) for _ in range(2)]
    starts = [(rng.random(700) < 0.7) * rng.random(700) for _ in texts]
    every = [path for length in (1, 2, 3) for path in itertools.product(range(RANKS), repeat=length)]
    values = plain_values(texts, starts, every)
    found = counted_paths(texts, starts, RATES, budget=4, depth=3, fanout=RANKS)
    total = sum(values[path] for path in found)
    closed = [
        chosen
        for chosen in itertools.combinations(every, 4)
        if all(p[:-1] in (*chosen, ()) and (p[-1] == 0 or (*p[:-1], p[-1] - 1) in chosen) for p in chosen)
    ]
    assert total == pytest.approx(max(sum(values[path] for path in chosen) for chosen in closed), rel=1e-12)


def test_where_no_cycle_starts_the_tree_is_that_of_the_rates() -> None:
    texts, starts = [GreedyText(np.zeros(50, int))], [np.zeros(50)]
    paths = counted_paths(texts, starts, RATES, budget=6, depth=9, fanout=9)
    sizes = (1, 3, 6)
    found = [st.block_efficiency(st.Tree.from_paths(paths[:size]), RATES) for size in sizes]
    assert found == pytest.approx([st.block_efficiency(st.best_tree(RATES, size), RATES) for size in sizes], rel=1e-12)
