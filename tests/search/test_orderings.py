"""Which rule accepts more: what holds at every node, and what whole trees do not inherit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import spectheory as st
from spectheory.otlp import NSS, RRS, GreedyTopK, Naive, OptimalTransport, Solver, SpecHub, SpecInfer, SpecTr
from spectheory.otlp.spectr import smallest_factor
from spectheory.verify import TopDown
from tests.enumeration import random_pairs


def distribution(*weights: int | Fraction) -> np.ndarray:
    return np.array([Fraction(w) for w in weights], dtype=object)


@pytest.mark.parametrize("pairs", [100, pytest.param(500, marks=pytest.mark.deep)])
def test_acceptance_per_node_is_ordered(pairs: int) -> None:
    """Pairs of distributions and k = 1, 2, 3; rho* is known to (k - 1) / 2^32, which is all the slack that is
    given.
    """
    for p, q in random_pairs(pairs, seed=5):
        for k in (1, 2, 3):
            nss, naive, specinfer, spectr = (s.acceptance(p, q, k) for s in (NSS(), Naive(), SpecInfer(), SpecTr()))
            best = st.optimal_acceptance(p, q, k)
            slack = Fraction(k * (k - 1), 2**32)
            assert nss <= naive <= specinfer <= spectr + slack <= best + slack
            assert k > 1 or naive == specinfer == spectr == RRS().acceptance(p, q, 1)
            assert k != 2 or SpecHub().acceptance(p, q, 2) == GreedyTopK().acceptance(p, q, 2)


ROOT = (distribution(0, Fraction(3, 4), Fraction(1, 4)), distribution(Fraction(1, 4), Fraction(3, 4), 0))
BEHIND = (distribution(1, 0, 0), distribution(Fraction(1, 2), Fraction(1, 2), 0))
WORLD = st.World.table({(): ROOT, **{(token,): BEHIND for token in range(3)}})


@pytest.mark.parametrize(
    ("solver", "kept"),
    [
        (Naive(), Fraction(81, 64)),
        (SpecInfer(), Fraction(81, 64)),
        (OptimalTransport(), Fraction(39, 32)),
        (SpecTr(), Fraction(5, 4)),
    ],
)
def test_whole_trees_do_not_inherit_the_order(solver: Solver, kept: Fraction) -> None:
    """Two i.i.d. paths of two tokens; the distributions after them do not matter."""
    found = st.expected_block_efficiency(TopDown(solver), WORLD, st.Paths(2, 2))
    slack = Fraction(1, 2**20) if isinstance(solver, SpecTr) else 0
    assert abs(found.value - 1 - kept) <= slack
    assert smallest_factor(*ROOT, 2) >= 1


def test_counterexamples_across_draw_rules() -> None:
    p, q = distribution(0, Fraction(1, 4), Fraction(3, 4)), distribution(Fraction(1, 2), 0, Fraction(1, 2))
    world = st.World.constant(p, q)
    merged = st.expected_block_efficiency(st.verify.Traversal(), world, st.Levels((2,)))
    assert SpecInfer().acceptance(p, q, 2) == Fraction(3, 4) > merged.value - 1 == Fraction(5, 8)
    p, q = distribution(0, Fraction(2, 5), Fraction(3, 5)), distribution(Fraction(1, 5), Fraction(1, 5), Fraction(3, 5))
    assert SpecTr().acceptance(p, q, 2) > st.otlp.RRS().acceptance(p, q, 2) == Fraction(17, 20)
    p, q = distribution(Fraction(1, 2), Fraction(1, 2)), distribution(Fraction(1, 6), Fraction(5, 6))
    world = st.World.constant(p, q)
    chain = st.expected_block_efficiency(st.verify.Block(), world, st.Levels((1, 1, 1)))
    tree = st.expected_block_efficiency(TopDown(SpecInfer()), world, st.Paths(2, 3))
    assert chain.value - 1 == Fraction(19, 12) > tree.value - 1 == Fraction(2299, 1458)
    p, q = distribution(0, 0, 1), distribution(Fraction(2, 5), Fraction(2, 5), Fraction(1, 5))
    greedy, without, nss = (s.acceptance(p, q, 2) for s in (st.otlp.GreedyTopK(), st.otlp.RRS(), NSS()))
    assert (greedy, nss) == (Fraction(1, 3), Fraction(9, 25))
    assert greedy < nss
    assert without <= st.optimal_acceptance(p, q, 2, st.DrawRule.NO_REPLACEMENT) == Fraction(7, 15)
