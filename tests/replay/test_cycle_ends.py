"""Where cycles end on recorded texts, and better drafts on the same texts, against enumeration and walks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectheory.core.chance import branches
from spectheory.core.draft import DrawRule
from spectheory.core.tree import Tree
from spectheory.core.world import Levels
from spectheory.otlp import RRS, Naive
from spectheory.replay import GreedyText, Replays, TargetText, where_cycles_end
from spectheory.replay.kernels import edges, passed_by_traversal, passed_top_down, shape_of
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier
from tests.replay.enumerated import (
    NO_REPLACEMENT,
    decoded,
    ends_by_path,
    random_text,
    random_world,
    text_of,
    texts,
    trees,
)

BUSHY = Tree([-1, 0, 0, 1, 1, 2, 3])
RANKS = np.array([0, 1, 0, -1, 0, 0, 3, 1, 0, 0, 2, 0])
UNEVEN = Tree([-1, 0, 0, 1])


@pytest.mark.parametrize("verifier", [TopDown(RRS()), Traversal()], ids=str)
def test_the_chance_to_keep_a_node_is_that_of_all_drafts_and_coins(verifier: Verifier) -> None:
    """By equality of Fractions, with the mean over everything that the sampler of siblings can draw."""
    world, shape = random_world(3, seed=1), shape_of(UNEVEN, NO_REPLACEMENT)
    paths = [(), *UNEVEN.to_paths()]

    def passed(text: TargetText, rng: object) -> np.ndarray:
        if isinstance(verifier, TopDown):
            solver = verifier.solver
            return passed_top_down(
                text, UNEVEN, shape, lambda k, depth: edges(text, solver, NO_REPLACEMENT, k, rng, depth=depth)
            )
        return passed_by_traversal(text, UNEVEN, shape, rng)

    for tokens in texts(3, 3):
        text, ends = text_of(world, tokens), ends_by_path(world, tokens, UNEVEN, NO_REPLACEMENT, verifier)
        rows = [chance * row for row, chance in branches(lambda rng, text=text: passed(text, rng)[0])]
        assert [sum(column) for column in zip(*rows, strict=True)] == [
            sum(chance for path, chance in ends.items() if path[: len(node)] == node) for node in paths
        ]


def test_cycles_end_as_in_all_runs_of_the_decoder_that_give_the_text() -> None:
    """Block verification of a chain of 2 on a text of 4 tokens: expected counts over all runs, given the text."""
    world, length = random_world(2, seed=5), 4
    runs = decoded(world, length + 2, Levels((1, 1)), Block())
    for tokens in [(0, 1, 0, 1, 1, 0), (1, 1, 0, 0, 0, 1)]:
        kept, total = np.zeros(3), sum(chance for (text, _), chance in runs.items() if text == tokens)
        for (text, starts), chance in runs.items():
            for start, following in itertools.pairwise((*starts, len(text))):
                if text == tokens and start < length:
                    kept[following - start - 1] += float(chance / total)
        exact = text_of(world, tokens)
        replays = Replays([TargetText(exact.tokens, exact.p.astype(float), exact.q.astype(float))], first=0)
        assert np.allclose(replays.replay(Tree.chain(2), Block(), DrawRule.IID).accepted, kept)
        found = where_cycles_end(replays, Tree.chain(2), Block(), DrawRule.IID)
        assert np.allclose(found.reached, kept[::-1].cumsum()[::-1] / kept.sum())
        assert np.allclose(found.missed, [*kept[:2] / kept.sum(), 0])
        assert np.allclose(found.no_child, [0, 0, kept[2] / kept.sum()])


def walked(ranks: list[int], tree: Tree, perfect: int | None = None) -> list[tuple[int, ...]]:
    """The path of each whole cycle of greedy decoding, by a walk."""
    paths, found, position = {(), *tree.to_paths()}, [], 1
    while position + tree.max_depth < len(ranks):
        path: tuple[int, ...] = ()
        while (below := (*path, 0 if len(path) == perfect else ranks[position + len(path)])) in paths:
            path = below
        found.append(path)
        position += len(path) + 1
    return found


@settings(max_examples=30)
@given(trees.filter(lambda tree: tree.budget > 0), st.lists(st.integers(-1, 4), min_size=12, max_size=40))
def test_reach_and_greedy_losses_are_those_of_a_walk_through_the_text(tree: Tree, ranks: list[int]) -> None:
    found = where_cycles_end(replays := Replays([GreedyText(np.array(ranks))]), tree, Greedy())
    cycles, paths = walked(ranks, tree), [(), *tree.to_paths()]
    shares = [np.mean([path[: len(node)] == node for path in cycles]) for node in paths]
    assert np.allclose(replays.reach(tree, Greedy()), shares)
    ended = np.zeros((2, tree.max_depth + 1))
    for path in cycles:
        ended[int((*path, 0) not in paths), len(path)] += 1 / len(cycles)
    assert np.allclose([found.missed, found.no_child], ended)
    for depth, tau in enumerate(found.without_misses):
        assert np.isclose(tau, 1 + np.mean([len(path) for path in walked(ranks, tree, depth)]))


@pytest.mark.parametrize("verifier", [TopDown(Naive()), TopDown(RRS()), Traversal(), Block()], ids=str)
def test_a_draft_without_misses_at_a_depth_predicts_what_the_target_predicts_there(verifier: Verifier) -> None:
    """The same siblings at depth 0, and q = p at depth 1; perfect at the root, each cycle keeps a token."""
    text = random_text(3, n=30, depths=1)
    other = TargetText(text.tokens, text.p, np.array([text.q[0], text.p, text.q[0]]))
    tree = Tree.chain(2) if isinstance(verifier, Block) else Tree.k_ary(2, 2)
    rule = verifier.rules[0] if isinstance(verifier, Block) else NO_REPLACEMENT
    perfect = Replays([text], seed=4).replay(tree, verifier, rule, perfect=1)
    assert np.allclose(perfect.accepted, Replays([other], seed=4).replay(tree, verifier, rule).accepted)
    assert np.isclose(Replays([text]).replay(tree, verifier, rule, perfect=0).accepted[0], 0)


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
    ranks, closer = RANKS, 0.25
    expected = Replays([GreedyText(ranks)]).replay(tree, Greedy(), closer=closer)
    emitted = cycles = 0.0
    for coins in itertools.product((False, True), repeat=len(ranks)):
        chance = closer ** sum(coins) * (1 - closer) ** (len(coins) - sum(coins))
        one = Replays([GreedyText(np.where(coins, 0, ranks))]).replay(tree, Greedy())
        emitted, cycles = emitted + chance * one.emitted[0], cycles + chance * one.cycles[0]
    assert np.allclose([expected.emitted[0], expected.cycles[0]], [emitted, cycles])
