"""Replays of trees and verifiers on texts: compiled loops against the plain ones, and greedy texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectheory.core.arrays import Vector
from spectheory.core.draft import DrawRule
from spectheory.core.tree import Tree
from spectheory.otlp import NSS, RRS, Naive, SpecInfer
from spectheory.replay import CycleChain, GreedyText, Replays, TargetText, kernels
from spectheory.replay.kernels import kept_top_down, shape_of
from spectheory.replay.siblings import Siblings
from spectheory.verify import Block, Greedy, GreedyMultiPathBlock, TopDown, Traversal, TreeMonteCarlo, Verifier
from tests.helpers import cycle_starts
from tests.replay.enumerated import NO_REPLACEMENT, random_text, trees

TREES = (Tree.chain(3), Tree.k_ary(3, 2), Tree([-1, 0, 0, 1, 1, 1, 2, 4]))


def draws_of(text: TargetText, siblings: Siblings) -> Callable[..., kernels.WeightedDrafts]:
    """`forced_draws` with the siblings that the compiled loops drew, found by the row of q."""
    drawn = siblings.drawn(3)
    place = {text.q[d, i].tobytes(): (d, i) for d in range(len(text.q)) for i in range(len(text))}

    def draws(rule: DrawRule, q: Vector, k: int, token: int, rng: Any) -> kernels.WeightedDrafts:
        others = [other for other in drawn[place[q.tobytes()]][: k - 1].tolist() if other >= 0]
        return kernels.in_every_place(q, token, others) if q[token] > 0 else []

    return draws


@pytest.mark.parametrize("rule", DrawRule, ids=lambda rule: rule.name)
def test_a_chain_has_the_draws_of_its_rule(rule: DrawRule) -> None:
    """Under TOP_K the child is the most probable token; under the other rules it is drawn from q."""
    text, shape = random_text(0), shape_of(Tree.chain(3), rule)
    (found,) = Replays([text]).kept(Tree.chain(3), TopDown(NSS()), rule)
    plain = kept_top_down(text, shape, lambda k, depth: kernels.edges(text, NSS(), rule, k, None, depth=depth))
    np.testing.assert_allclose(found, plain, rtol=1e-12)


@pytest.mark.parametrize("tree", TREES, ids=repr)
@pytest.mark.parametrize("verifier", [TopDown(NSS()), TopDown(Naive()), TopDown(RRS()), Traversal()], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_compiled_loops_equal_the_plain_ones(
    verifier: Verifier, tree: Tree, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the same siblings."""
    text = random_text(seed)
    replays = Replays([text], seed=seed)
    (found,) = replays.kept(tree, verifier, NO_REPLACEMENT)
    siblings = replays._each[0].siblings()
    monkeypatch.setattr(kernels, "forced_draws", draws_of(text, siblings))
    shape = shape_of(tree, NO_REPLACEMENT)
    if isinstance(verifier, TopDown):
        solver = verifier.solver
        plain = kept_top_down(
            text, shape, lambda k, depth: kernels.edges(text, solver, NO_REPLACEMENT, k, None, depth=depth)
        )
    else:
        plain = kernels.kept_by_traversal(text, shape, None)
    assert np.allclose(found[:, : plain.shape[1]], plain, rtol=1e-9, atol=1e-12)
    assert (found[:, plain.shape[1] :] == 0).all()


def test_the_siblings_are_drawn_without_replacement_from_the_others() -> None:
    """Chi-squared of ordered pairs against their probabilities, error level 1e-6, fixed seed."""
    from scipy.stats import chisquare

    q, n = np.array([0.1, 0.2, 0.3, 0.4]), 20_000
    rows = np.tile(q, (n, 1))
    drawn = Siblings(TargetText(np.zeros(n, int), rows, rows), [7]).drawn(2)[0]
    rest = {1: 0.2, 2: 0.3, 3: 0.4}
    expected = {(a, b): n * rest[a] / 0.9 * rest[b] / (0.9 - rest[a]) for a in rest for b in rest if a != b}
    counted = [int(((drawn == pair).all(1)).sum()) for pair in expected]
    assert sum(counted) == n
    assert chisquare(counted, list(expected.values())).pvalue > 1e-6


def test_chains_of_all_block_like_verifiers_agree() -> None:
    """Block, Tree Monte Carlo, traversal and one path of greedy multi-path block have one distribution on chains."""
    replays, chain = Replays([random_text(seed, depths=1) for seed in range(3)]), Tree.chain(4)
    verifiers = Block(), TreeMonteCarlo(), Traversal(), GreedyMultiPathBlock()
    block, *others = [np.concatenate(replays.kept(chain, verifier, DrawRule.IID)) for verifier in verifiers]
    assert all(np.allclose(block, other) for other in others)


@given(trees, st.lists(st.integers(-1, 3), min_size=1, max_size=30))
def test_greedy_cycles_are_those_of_the_longest_match(tree: Tree, ranks: list[int]) -> None:
    """Against `cycle_starts`, which walks down the tree."""
    chain = CycleChain(Replays([GreedyText(np.array(ranks))]).kept(tree, Greedy())[0])
    starts = cycle_starts(np.array(ranks), tree)
    assert np.flatnonzero(chain.starts).tolist() == starts.tolist()
    assert chain.expected_cycles[1] == len(starts)
    assert chain.cycle_variance[1] == 0


@pytest.mark.parametrize(
    ("verifier", "rule"),
    [(TopDown(RRS()), NO_REPLACEMENT), (Traversal(), NO_REPLACEMENT), (TopDown(SpecInfer()), DrawRule.IID)],
    ids=str,
)
def test_the_reach_of_the_nodes_adds_up_to_the_cycles_that_keep_as_many_tokens(
    verifier: Verifier, rule: DrawRule
) -> None:
    replays, tree = Replays([random_text(seed) for seed in range(3)]), TREES[2]
    accepted = replays.replay(tree, verifier, rule).accepted
    at_least = accepted[::-1].cumsum()[::-1] / accepted.sum()
    assert np.allclose(np.bincount(tree.depth, replays.reach(tree, verifier, rule)), at_least)


def test_ranks_by_depth_are_read_where_the_node_is() -> None:
    """A head that drafts well at depth 0 and never at depth 1."""
    ranks = np.array([[0] * 8, [-1] * 8])
    assert Replays([GreedyText(ranks)]).replay(Tree.chain(3), Greedy()).tau == 2


def test_tau_is_tokens_over_cycles_of_the_cycles_that_fit() -> None:
    """A text of hits and misses in turn: cycles of a chain of 2 keep one token each."""
    texts = [GreedyText(np.array(ranks * 30)) for ranks in ([-1, 0], [0, -1])]
    replayed = Replays(texts, first=0).replay(Tree.chain(2), Greedy())
    assert replayed.emitted.tolist() == [59.0, 58.0]
    assert replayed.cycles.tolist() == [30.0, 29.0]
    assert replayed.accepted.tolist() == [1, 58, 0]
    assert replayed.tau == 117 / 59
