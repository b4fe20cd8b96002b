"""`GlobalResolution`: lossless for any weights, and nearly optimal with those of the convex problem."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import spectheory as st
from spectheory import DrawRule
from spectheory.otlp import GlobalResolution, Naive, OptimalTransport
from spectheory.otlp.global_resolution import _carried, transport_weights
from tests.enumeration import enumerated, exact, random_pairs
from tests.refusals import refuses


@pytest.mark.parametrize("sweeps", [1, 5])
def test_bad_weights_cost_acceptance_only(sweeps: int) -> None:
    solver = GlobalResolution(sweeps)
    for i, (p, q) in enumerate(random_pairs(40, (2, 3))):
        k = 1 + i % 3
        emitted, accepted = enumerated(solver, p, q, k, DrawRule.IID)
        assert (emitted == p).all()
        assert Naive().acceptance(p, q, k) <= accepted <= st.optimal_acceptance(p, q, k)


def test_the_acceptance_is_nearly_optimal() -> None:
    """The bound is that of these 40 cases; the weights of some of them would have to be infinite."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        size, k = int(rng.integers(2, 8)), int(rng.integers(2, 5))
        p, q = rng.dirichlet(np.full(size, 0.7)), rng.dirichlet(np.full(size, 0.7))
        assert -1e-12 < st.optimal_acceptance(p, q, k) - GlobalResolution().acceptance(p, q, k) < 1e-4


def test_the_set_is_a_smallest_cut_and_the_masses_outside_are_feasible() -> None:
    """Theorems 3.1 and 6.2, against all sets of tokens."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        size, k = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        subsets = [list(s) for n in range(size + 1) for s in itertools.combinations(range(size), n)]
        inside, _ = transport_weights(p.tolist(), q.tolist(), k, 1)
        held = sorted(inside)
        assert p[held].sum() - q[held].sum() ** k <= min(p[s].sum() - q[s].sum() ** k for s in subsets) + 1e-9
        rest = np.array([token for token in range(size) if token not in inside], dtype=int)
        rest = rest[np.argsort(p[rest] / q[rest])]
        carried = dict(zip(rest.tolist(), _carried(p, q, k, np.array(held, dtype=int), rest), strict=True))
        assert sum(carried.values()) == pytest.approx(1 - q[held].sum() ** k)
        for some in itertools.chain.from_iterable(itertools.combinations(carried, n) for n in range(len(carried) + 1)):
            mass, others = sum(carried[token] for token in some), [t for t in range(size) if t not in some]
            assert mass <= 1 - q[others].sum() ** k + 1e-9
            assert all(carried[token] <= p[token] + 1e-9 for token in some)


def test_named_examples() -> None:
    p, q = exact(1, 2), exact(2, 1)
    best = OptimalTransport().acceptance(p, q, 2)
    assert best == Fraction(8, 9)
    assert 0 <= best - GlobalResolution().acceptance(p, q, 2) < Fraction(1, 10**6)
    half = exact(1, 1)
    assert GlobalResolution().acceptance(half, half, 2) == 1
    refuses("sweeps must be at least 1, got 0", GlobalResolution, 0)
    with pytest.raises(st.InputError, match=r"3 drafts from 100 tokens form .* sets"):
        GlobalResolution().acceptance(np.full(100, 0.01), np.full(100, 0.01), 3)
