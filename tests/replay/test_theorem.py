"""The chances to end a cycle equal the enumeration of all drafts and coins, by equality of Fractions."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectheory.core.chance import branches
from spectheory.core.draft import DrawRule
from spectheory.core.tree import Tree
from spectheory.core.world import DrawPolicy, Levels, Paths
from spectheory.otlp import NSS, RRS, Naive, SpecInfer, solvers
from spectheory.replay import CycleChain, TargetText
from spectheory.replay.kernels import (
    best_path_ratios,
    chain_ratios,
    edges,
    kept_by_ratio,
    kept_by_traversal,
    kept_top_down,
    shape_of,
)
from spectheory.verify import Block, GreedyMultiPathBlock, TopDown, Traversal, TreeMonteCarlo, Verifier
from tests.replay.enumerated import after, ends, random_world, text_of, texts

IID, APART, NO_REPLACEMENT = DrawRule.IID, DrawRule.IID_APART, DrawRule.NO_REPLACEMENT
UNEVEN = Tree([-1, 0, 0, 1])
CASES: list[tuple[Tree | DrawPolicy, DrawRule, Verifier]] = [
    *((Levels((2,), rule), rule, TopDown(solver)) for solver in solvers() for rule in solver.rules),
    (Levels((3,), NO_REPLACEMENT), NO_REPLACEMENT, TopDown(RRS())),
    (Levels((2, 1), NO_REPLACEMENT), NO_REPLACEMENT, TopDown(Naive())),
    (UNEVEN, NO_REPLACEMENT, TopDown(RRS())),
    (UNEVEN, DrawRule.TOP_K, TopDown(NSS())),
    (UNEVEN, NO_REPLACEMENT, Traversal()),
    (Levels((1, 2), NO_REPLACEMENT), NO_REPLACEMENT, Traversal()),
    (Levels((3,), NO_REPLACEMENT), NO_REPLACEMENT, Traversal()),
    (Levels((2,), APART), APART, Traversal()),
    (Paths(2, 2), IID, Traversal()),
    (Paths(2, 2), IID, TopDown(SpecInfer())),
    (Paths(2, 2), IID, GreedyMultiPathBlock()),
    (Paths(2, 1, trunk=1), IID, GreedyMultiPathBlock()),
    (Paths(3, 1), IID, GreedyMultiPathBlock()),
    *((Levels((1, 1, 1)), IID, verifier) for verifier in (Block(), TreeMonteCarlo(), Traversal())),
]


VOCABULARY: dict[tuple[Tree | DrawPolicy, Verifier], int] = {
    (Paths(2, 2), TopDown(SpecInfer())): 2,
    (Levels((1, 1, 1)), Traversal()): 2,
}
"""Where 3 tokens make too many branches."""


def kept(text: TargetText, shape: Tree | DrawPolicy, rule: DrawRule, verifier: Verifier, rng: object) -> np.ndarray:
    """The plain bodies, by kind of verifier."""
    states = shape_of(shape, rule)
    if isinstance(verifier, TopDown):
        return kept_top_down(text, states, lambda k, depth: edges(text, verifier.solver, rule, k, rng, depth=depth))
    if isinstance(verifier, Traversal):
        return kept_by_traversal(text, states, rng)
    if isinstance(verifier, GreedyMultiPathBlock):
        assert isinstance(shape, Paths)
        return kept_by_ratio(best_path_ratios(text, shape.paths, shape.length, shape.trunk))
    assert isinstance(shape, Levels)
    return kept_by_ratio(chain_ratios(text, len(shape.counts)))


def depth_of(shape: Tree | DrawPolicy) -> int:
    if isinstance(shape, Tree):
        return shape.max_depth
    return next(depth for depth in range(9) if not shape.draws(depth, 1))


def mean_ends(text: TargetText, *case: object, start: int = 0) -> list[Fraction]:
    """W of a cycle from a position, averaged over everything that the sampler of siblings can draw."""
    total = [Fraction(0)] * (len(text) - start)
    for row, chance in branches(lambda rng: CycleChain(kept(text, *case, rng)).ends[start]):  # type: ignore[arg-type]
        for place, value in enumerate(row[: len(total)]):
            total[place] += chance * value
    return total


@pytest.mark.parametrize("most", [3, pytest.param(81, marks=pytest.mark.deep)], ids=["few", "all"])
@pytest.mark.parametrize(("shape", "rule", "verifier"), CASES, ids=str)
def test_the_chances_to_end_are_those_of_all_drafts_and_coins(
    shape: Tree | DrawPolicy, rule: DrawRule, verifier: Verifier, most: int
) -> None:
    """For 3 texts, or all, of one world that depends on the whole context. The mean over the sampler of siblings is
    exact, so that it is unbiased.
    """
    length, world = depth_of(shape) + 1, random_world(VOCABULARY.get((shape, verifier), 3), seed=1)
    every = list(texts(len(world.p(())), length))
    for tokens in random.Random(1).sample(every, min(most, len(every))):
        found = mean_ends(text_of(world, tokens), shape, rule, verifier)
        assert sum(found) == 1
        assert found == ends(world, tokens, shape, rule, verifier), tokens


@pytest.mark.parametrize("verifier", [TopDown(RRS()), Traversal()], ids=str)
def test_a_cycle_may_start_anywhere(verifier: Verifier) -> None:
    shape, world = Levels((2,), NO_REPLACEMENT), random_world(3, seed=2)
    for tokens in texts(3, 3):
        found = mean_ends(text_of(world, tokens), shape, shape.rule, verifier, start=1)
        assert found == ends(after(world, tokens[:1]), tokens[1:], shape, shape.rule, verifier)


@pytest.mark.parametrize(
    ("shape", "verifier"), [(Levels((1, 1)), Block()), (Levels((2, 1)), TopDown(Naive()))], ids=str
)
def test_the_draft_may_depend_on_the_depth_in_the_cycle(shape: Levels, verifier: Verifier) -> None:
    """The rows of q that a cycle from position 0 does not read hold another distribution."""
    world, other = random_world(3, seed=3), random_world(3, seed=4)
    for tokens in list(texts(3, 3))[::4]:
        text, wrong = text_of(world, tokens), text_of(other, tokens)
        by_depth = np.array([wrong.q[0]] * 2)
        for depth in range(2):
            by_depth[depth, depth] = text.q[0][depth]
        found = mean_ends(TargetText(text.tokens, text.p, by_depth), shape, IID, verifier)
        assert found == ends(world, tokens, shape, IID, verifier)


@given(st.data())
def test_the_chain_of_boundaries_equals_their_enumeration(data: st.DataObject) -> None:
    """Expected cycles, their variance and where cycles start, summed over all sequences of boundaries."""
    n, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    rows = data.draw(st.lists(st.lists(st.integers(0, 5), min_size=width, max_size=width), min_size=n, max_size=n))
    ends_of = [[Fraction(weight + (not any(row)), sum(row) or width) for weight in row] for row in rows]
    survivors = np.array([[sum(row[m:], Fraction(0)) for m in range(width)] for row in ends_of], dtype=object)
    chain = CycleChain(survivors, first=0)
    paths: list[tuple[tuple[int, ...], Fraction]] = [((0,), Fraction(1))]
    complete: list[tuple[tuple[int, ...], Fraction]] = []
    while paths:
        starts, chance = paths.pop()
        for kept_tokens, end in enumerate(ends_of[starts[-1]]):
            following = starts[-1] + kept_tokens + 1
            if following < n:
                paths.append(((*starts, following), chance * end))
            else:
                complete.append((starts, chance * end))
    mean = sum(chance * len(starts) for starts, chance in complete)
    assert chain.expected_cycles[0] == mean
    assert chain.cycle_variance[0] == sum(chance * (len(starts) - mean) ** 2 for starts, chance in complete)
    for position in range(n):
        assert chain.starts[position] == sum(chance for starts, chance in complete if position in starts)
    compiled = CycleChain(survivors.astype(float), first=0)
    assert np.allclose(compiled.expected_cycles, chain.expected_cycles.astype(float))
    assert np.allclose(compiled.cycle_variance, chain.cycle_variance.astype(float))
    assert np.allclose(compiled.starts, chain.starts.astype(float))
