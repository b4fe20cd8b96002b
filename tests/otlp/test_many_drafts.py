"""SpecInfer with many drafts: its distribution is that of all orders, and takes polynomial time."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from spectheory.otlp import SpecInfer


def by_orders(p: np.ndarray, q: np.ndarray, drafts: list[int]) -> list[Fraction]:
    """The distribution of the emitted token, order by order."""
    total = [Fraction(0)] * len(p)
    for order in permutations(drafts):
        left, reached = list(p), Fraction(1, math.factorial(len(drafts)))
        for token in order:
            accept = min(Fraction(1), left[token] / q[token])
            total[token] += reached * accept
            reached *= 1 - accept
            left = [max(a - b, Fraction(0)) for a, b in zip(left, q, strict=True)]
            mass = sum(left)
            left = [a / mass for a in left] if mass else list(p)
        total = [a + reached * b for a, b in zip(total, left, strict=True)]
    return total


def exact(weights: list[int]) -> np.ndarray:
    return np.array([Fraction(weight, sum(weights)) for weight in weights], dtype=object)


@pytest.mark.parametrize("seed", range(40))
def test_the_distribution_is_that_of_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    p, q = exact([*rng.integers(0, 9, size).tolist()[:-1], 1]), exact(rng.integers(1, 9, size).tolist())
    drafts = rng.integers(0, size, count).tolist()
    found = SpecInfer().distribution(p, q, drafts).tolist()
    assert found == by_orders(p, q, drafts)
    assert {type(value) for value in found} == {Fraction}


def test_thirty_drafts_take_no_time() -> None:
    """Thirty different drafts had 2^30 sets of untried drafts."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(64)), rng.dirichlet(np.ones(64))
    found = SpecInfer().distribution(p, q, list(range(30)))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-12)
