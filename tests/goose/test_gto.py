"""Tests of GTO's reward against its formula, bounds and limits, and of its difference to the accepted tokens."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectheory import Draft, DrawRule, Tree, gto, otlp, verify
from tests.enumeration import random_pairs
from tests.helpers import refuses

fixed = settings(derandomize=True, max_examples=80)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tree, np.ndarray]:
    """A tree with conditional probabilities that sum to at most 1 among siblings."""
    size = draw(st.integers(1, 12))
    tree = Tree([-1] + [draw(st.integers(0, node)) for node in range(size)])
    weights = np.array([draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])) for _ in range(size + 1)])
    total = np.bincount(tree.parent[1:], weights[1:], minlength=size + 1)
    return tree, weights / np.maximum(1, total[tree.parent]) * draw(st.sampled_from([1.0, 0.7]))


def lengths(tree: Tree, rate: Any) -> list[float]:
    """L of each leaf, by Eq. 3 and 4 as printed."""
    found = []
    for leaf in range(1, tree.budget + 1):
        if len(tree.children(leaf)) == 0:
            path, node = [], leaf
            while node:
                path.append(float(rate[node]))
                node = int(tree.parent[node])
            path.reverse()
            found.append(sum(float(np.prod(path[:j])) for j in range(1, len(path) + 1)))
    return found


@fixed
@given(case=trees(), eta=st.sampled_from([0.01, 1.0, 10.0]))
def test_the_reward_is_its_formula_and_within_its_bounds(case: tuple[Tree, np.ndarray], eta: float) -> None:
    tree, rate = case
    found, each = gto.draft_tree_reward(tree, rate, eta), lengths(tree, rate)
    assert found == pytest.approx(log(sum(exp(eta * length) for length in each)) / eta, rel=1e-9, abs=1e-12)
    assert max(each) - 1e-12 <= found <= max(each) + log(len(each)) / eta + 1e-12


@fixed
@given(case=trees(), eta=st.sampled_from([1e-8, 1e8, 1e300, 5e-324]))
def test_extreme_eta_neither_overflows_nor_leaves_the_bounds(case: tuple[Tree, np.ndarray], eta: float) -> None:
    tree, rate = case
    found, each = gto.draft_tree_reward(tree, rate, eta), lengths(tree, rate)
    assert max(each) * (1 - 1e-12) <= found
    assert found <= max(each) + log(len(each)) / eta * (1 + 1e-12) + 1e-12


@fixed
@given(case=trees())
def test_expected_accepted_is_the_walk_of_a_sampled_target(case: tuple[Tree, np.ndarray]) -> None:
    tree, rate = case

    def below(node: int) -> float:
        return sum((float(rate[child]) * (1 + below(child)) for child in tree.children(node)), 0.0)

    assert gto.expected_accepted(tree, rate) == pytest.approx(below(0), rel=1e-12, abs=1e-15)
    assert max(lengths(tree, rate)) <= gto.expected_accepted(tree, rate) * (1 + 1e-12) + 1e-15


def test_expected_accepted_is_what_nss_keeps() -> None:
    """Siblings hold tokens 0, 1, ...; the distributions of target and draft differ from node to node."""
    tree = Tree([-1, 0, 0, 1, 1, 2, 4, 4])
    pairs = [pair for pair in random_pairs(200, seed=3) if len(pair[0]) >= 2 and all(x > 0 for x in pair[1][:2])]
    p, q = zip(*[pair for pair in pairs if len(pair[0]) == len(pairs[0][0])][: tree.budget + 1], strict=True)
    draft = Draft.in_order(tree, tree.rank, list(q), DrawRule.IID)
    kept = verify.TopDown(otlp.NSS()).outcome(draft, list(p)).block_efficiency - 1
    assert isinstance(kept, Fraction)
    rate = [Fraction(1)] + [p[tree.parent[node]][tree.rank[node]] for node in range(1, tree.budget + 1)]
    assert gto.expected_accepted(tree, rate) == pytest.approx(float(kept), rel=1e-12)


def test_the_reward_is_not_the_acceptance() -> None:
    """It counts leaves that are never accepted, and can rise while the expectation falls: Theorem 1(a) fails."""
    fork = Tree([-1, 0, 0])
    assert gto.draft_tree_reward(Tree.chain(1), [1, 0.6], 1) == 0.6
    assert gto.draft_tree_reward(fork, [1, 0.6, 0], 1) > 1
    even, uneven = [1, 3 / 11, 3 / 11], [1, 4 / 11, 1 / 11]
    assert gto.draft_tree_reward(fork, even, 6) == pytest.approx(0.3883, abs=1e-4)
    assert gto.draft_tree_reward(fork, uneven, 6) == pytest.approx(0.3933, abs=1e-4)
    assert gto.expected_accepted(fork, even) == 6 / 11 > gto.expected_accepted(fork, uneven)


@pytest.mark.parametrize(
    ("rate", "eta", "message"),
    [
        ([1, 0.5], 1, r"target_probability must have one entry for each of the 3 nodes, got shape \(2,\)"),
        ([1, 0.5, -0.1], 1, r"target_probability\[2\] must be a probability, got -0\.1"),
        ([1, float("nan"), 0.1], 1, r"target_probability\[1\] must be a probability, got nan"),
        ([1, 0.6, 0.6], 1, r"children of node 0 must sum to at most 1, got 1\.2: siblings must hold different"),
        ([1, 0.5, 0.5], 0, "eta must be finite and above 0, got 0"),
        ([1, 0.5, 0.5], "1", "eta must be finite and above 0, got '1'"),
        ([1, 0.5, 0.5], float("inf"), "eta must be finite and above 0, got inf"),
    ],
)
def test_bad_arguments_are_named(rate: list[float], eta: float, message: str) -> None:
    refuses(message, gto.draft_tree_reward, Tree([-1, 0, 0]), rate, eta)
