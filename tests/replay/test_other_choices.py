"""What other drafts, trees and verifiers would give on the same texts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spectheory.core.draft import DrawRule
from spectheory.core.tree import Tree
from spectheory.otlp import NSS, RRS, Naive, SpecTr
from spectheory.replay import ChainText, GreedyText, Replays, TargetText, explain
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier
from tests.replay.inputs import BUSHY, RANKS
from tests.replay.test_replays import random_text

NO_REPLACEMENT = DrawRule.NO_REPLACEMENT


@pytest.mark.parametrize("verifier", [TopDown(Naive()), TopDown(RRS()), Traversal(), Block()], ids=str)
def test_a_draft_without_misses_at_a_depth_predicts_what_the_target_predicts_there(verifier: Verifier) -> None:
    """The same siblings at depth 0, and q = p at depth 1."""
    text = random_text(3, n=30, depths=1)
    other = TargetText(text.tokens, text.p, np.array([text.q[0], text.p, text.q[0]]))
    tree = Tree.chain(2) if isinstance(verifier, Block) else Tree.k_ary(2, 2)
    rule = verifier.rules[0] if isinstance(verifier, Block) else NO_REPLACEMENT
    perfect = Replays([text], seed=4).replay(tree, verifier, rule, perfect=1)
    assert np.allclose(perfect.accepted, Replays([other], seed=4).replay(tree, verifier, rule).accepted)


@pytest.mark.parametrize(
    ("verifier", "rule"),
    [
        *((TopDown(solver), DrawRule.IID) for solver in (NSS(), RRS(), SpecTr())),
        *((Traversal(), rule) for rule in Traversal().rules),
        (TopDown(NSS()), DrawRule.TOP_K),
    ],
    ids=str,
)
def test_without_misses_at_the_root_every_cycle_of_a_tree_of_one_level_keeps_a_token(
    verifier: Verifier, rule: DrawRule
) -> None:
    found = Replays([random_text(5, n=6, depths=1)]).replay(Tree.k_ary(2, 1), verifier, rule, perfect=0)
    assert np.allclose(found.accepted, [0, found.cycles.sum()])


@pytest.mark.parametrize("tree", [Tree.chain(3), BUSHY], ids=repr)
def test_a_closer_draft_of_sampled_text_is_a_mixture(tree: Tree) -> None:
    text = random_text(2, n=30, depths=1)
    mixed = TargetText(text.tokens, text.p, 0.75 * text.q + 0.25 * text.p)
    rule = DrawRule.IID if tree.is_chain else NO_REPLACEMENT
    found, wanted = (
        Replays([one], seed=9).replay(tree, Traversal(), rule, closer=closer)
        for one, closer in ((text, 0.25), (mixed, 0.0))
    )
    assert found.to_dict() == wanted.to_dict()
    assert Replays([text]).replay(tree, Traversal(), rule, closer=1).tau == pytest.approx(tree.max_depth + 1)


@pytest.mark.parametrize("tree", [Tree.chain(3), BUSHY], ids=repr)
def test_a_closer_draft_of_greedy_text_is_a_mean_over_drafts(tree: Tree) -> None:
    """Every token is ranked first with probability 1/4, over all 2^12 ways."""
    ranks, closer = RANKS[:12], 0.25
    expected = Replays([GreedyText(ranks)]).replay(tree, Greedy(), closer=closer)
    emitted = cycles = 0.0
    for coins in itertools.product((False, True), repeat=len(ranks)):
        chance = closer ** sum(coins) * (1 - closer) ** (len(coins) - sum(coins))
        one = Replays([GreedyText(np.where(coins, 0, ranks))]).replay(tree, Greedy())
        emitted, cycles = emitted + chance * one.emitted[0], cycles + chance * one.cycles[0]
    assert np.allclose([expected.emitted[0], expected.cycles[0]], [emitted, cycles])


def test_other_choices_are_replayed_on_the_same_texts() -> None:
    replays = Replays([random_text(seed, n=40, depths=1) for seed in range(4)])
    found = explain(replays, Tree.chain(3), Block())
    by_change = {(choice.change, choice.verifier): choice for choice in found.what_if}
    deeper = by_change["one level more", "Block"]
    assert deeper.tau == replays.replay(Tree.chain(4), Block(), DrawRule.IID).tau
    assert deeper.difference == deeper.tau - found.replayed.tau
    same = by_change["another verifier", "Traversal"]
    assert abs(same.difference) < 1e-12 > abs(same.difference_high or 1)
    wider = by_change["one more child of the root", "Traversal"]
    assert wider.tau == replays.replay(Tree(wider.parent), Traversal(), NO_REPLACEMENT).tau
    assert sorted(Tree(wider.parent).to_paths()) == [(0,), (0, 0), (0, 0, 0), (1,)]
    assert ("another verifier", "Block") not in by_change


def test_the_interval_of_a_difference_is_that_of_the_jackknife() -> None:
    """Leaving out one text at a time; both are first-order, so they agree to a few percent."""
    every = [random_text(seed, n=60, depths=1) for seed in range(12)]
    found = explain(Replays(every), Tree.chain(2), Block())
    (choice,) = [one for one in found.what_if if one.change == "one level more"]
    gains = []
    for out in range(len(every)):
        rest = Replays(text for place, text in enumerate(every) if place != out)
        longer, shorter = (rest.replay(Tree.chain(length), Block(), DrawRule.IID).tau for length in (3, 2))
        gains.append(longer - shorter)
    from scipy.stats import t

    error = np.sqrt(11 * np.var(gains))
    assert choice.difference_high is not None
    assert choice.difference_high - choice.difference == pytest.approx(t.ppf(0.975, 11) * error, rel=0.1)


@pytest.mark.parametrize(
    ("replays", "tree", "left_out"),
    [
        (
            Replays([GreedyText(np.where(RANKS < 2, RANKS, -1), candidates=2)]),
            Tree.k_ary(2, 1),
            "one more child of the root",
        ),
        (Replays([GreedyText(RANKS[:8])]), Tree.chain(6), "one level more"),
        (Replays([ChainText(np.array([0, 2, 1, 0, 1, 0, 2, 1, 0]), 2)]), Tree.chain(2), "one level more"),
    ],
    ids=["too wide", "too deep", "not recorded"],
)
def test_what_the_texts_cannot_judge_is_left_out(replays: Replays, tree: Tree, left_out: str) -> None:
    assert left_out not in [choice.change for choice in explain(replays, tree).what_if]
