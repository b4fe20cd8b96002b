"""Where cycles end on recorded texts, by depth, rank and context, against enumeration and walks."""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_check.replay.enumerated import decoded, drafts, random_world, text_of, texts
from spectheory.core.chance import branches
from spectheory.core.draft import DrawRule
from spectheory.core.tree import Tree
from spectheory.core.world import Levels, World
from spectheory.otlp import RRS
from spectheory.replay import GreedyText, Replays, TargetText, explain
from spectheory.replay.contexts import RECENT
from spectheory.replay.misses import MOST_RANKS, ranks_of
from spectheory.replay.shape import shape_of
from spectheory.replay.top_down import edges, passed_top_down
from spectheory.replay.traversal import passed_by_traversal
from spectheory.verify import Block, TopDown, Traversal, Verifier
from tests.replay.test_replays import trees

NO_REPLACEMENT = DrawRule.NO_REPLACEMENT
UNEVEN = Tree([-1, 0, 0, 1])


def ends_by_path(world: World, tokens: tuple[int, ...], tree: Tree, verifier: Verifier) -> dict[Any, Fraction]:
    """W of a cycle at the start of a text by the path of ranks at which it ends, over all drafts and coins."""
    found: defaultdict[Any, Fraction] = defaultdict(Fraction)
    for draft, chance in drafts(world, tree, NO_REPLACEMENT):
        outcome, paths = verifier.outcome(draft, world.target(draft)), [(), *draft.tree.to_paths()]
        for node, (stop, following) in enumerate(zip(outcome.stop, outcome.next_token, strict=True)):
            context = draft.context(node)
            if tokens[: len(context)] == context:
                target = np.prod([world.p(tokens[:place])[tokens[place]] for place in range(len(context) + 1)])
                found[paths[node]] += chance * stop * following[tokens[len(context)]] / target
    return found


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
        text, ends = text_of(world, tokens), ends_by_path(world, tokens, UNEVEN, verifier)
        rows = [chance * row for row, chance in branches(lambda rng, text=text: passed(text, rng)[0])]
        assert [sum(column) for column in zip(*rows, strict=True)] == [
            sum(chance for path, chance in ends.items() if path[: len(node)] == node) for node in paths
        ]


def test_depths_and_contexts_are_those_of_all_runs_of_the_decoder_that_give_the_text() -> None:
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
        text = TargetText(exact.tokens, exact.p.astype(float), exact.q.astype(float))
        found = explain(Replays([text], first=0), Tree.chain(2), Block())
        assert np.allclose(found.replayed.accepted, kept)
        assert np.allclose(found.reached, kept[::-1].cumsum()[::-1] / kept.sum())
        assert np.allclose(found.ended_by_miss, [*kept[:2] / kept.sum(), 0])
        assert np.allclose(found.ended_at_leaf, [0, 0, kept[2] / kept.sum()])
        assert np.isclose(sum(group.cycles for group in found.contexts), 1)
        assert np.isclose(sum(group.cycles * group.tau for group in found.contexts), found.replayed.tau)


def walked(ranks: list[int], tree: Tree, perfect: int | None = None) -> list[tuple[int, tuple[int, ...]]]:
    """(Start, path) of each whole cycle of greedy decoding, by a walk."""
    paths, found, position = {(), *tree.to_paths()}, [], 1
    while position + tree.max_depth < len(ranks):
        path: tuple[int, ...] = ()
        while True:
            below = (*path, 0 if len(path) == perfect else ranks[position + len(path)])
            if below not in paths:
                break
            path = below
        found.append((position, path))
        position += len(path) + 1
    return found


greedy_ranks = st.lists(st.integers(-1, 4), min_size=12, max_size=40)


@settings(deadline=None, max_examples=30)
@given(trees.filter(lambda tree: tree.budget > 0), greedy_ranks)
def test_greedy_losses_are_those_of_a_walk_through_the_text(tree: Tree, ranks: list[int]) -> None:
    found = explain(Replays([GreedyText(np.array(ranks))]), tree)
    cycles, paths = walked(ranks, tree), {(), *tree.to_paths()}
    missed, following = np.zeros((2, MOST_RANKS + 1)), np.zeros(tree.max_depth)
    for start, path in cycles:
        rank, leaf = ranks[start + len(path)], (*path, 0) not in paths
        missed[int(leaf), rank] += 1 / len(cycles)
        following[len(path) : len(path) + 1] += (not leaf and rank == sum(p[:-1] == path for p in paths if p)) / len(
            cycles
        )
    assert np.allclose(found.missed, missed)
    assert np.allclose(found.next_child, following)
    for depth, tau in enumerate(found.perfect):
        kept = [len(path) for _, path in walked(ranks, tree, depth)]
        assert np.isclose(tau, 1 + np.mean(kept))


def test_the_context_of_a_cycle_is_what_single_drafts_kept_before() -> None:
    """Hits and misses in two halves: hard cycles start after misses."""
    ranks = np.array([-1] * 40 + [0] * 40)
    found = explain(Replays([GreedyText(ranks)]), Tree.chain(1))
    hard, easy = found.contexts[0], found.contexts[-1]
    assert (hard.lowest, easy.highest) == (0, 1)
    assert hard.tau < easy.tau == 2
    assert RECENT == 8
    assert sum(group.positions for group in found.contexts) == pytest.approx(1)


def test_ranks_of_sampled_text_are_places_in_the_order_of_q() -> None:
    q = np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [1.0, 0.0, 0.0]])
    text = TargetText(np.array([0, 0, 1, 1]), np.full((4, 3), 1 / 3), q)
    assert ranks_of(text).tolist() == [[2, 0, 1, -1]]
