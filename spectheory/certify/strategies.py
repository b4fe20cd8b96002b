"""Hypothesis strategies for property tests of verifiers: distributions, pairs, worlds, policies, drafts.

All distributions are exact: object arrays of `fractions.Fraction` with small denominators, so that equality can be
tested and a counterexample shrinks to one that can be read. Needs `hypothesis`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from hypothesis import strategies as hs

from spectheory.core.arrays import Vector, zeros_like
from spectheory.core.chance import branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.world import Context, DrawPolicy, Levels, Paths, World


def distributions(size: int, largest_weight: int = 4) -> hs.SearchStrategy[Vector]:
    """Distributions on `size` tokens with weights 0..largest_weight over their sum: zeros and one-hot distributions
    among them.
    """
    weights = hs.lists(hs.integers(0, largest_weight), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: np.array([Fraction(x, sum(w)) for x in w], dtype=object))


@hs.composite
def pairs(draw: hs.DrawFn, size: int) -> tuple[Vector, Vector]:
    """(p, q) on `size` tokens: any two distributions, equal ones, or ones of disjoint supports."""
    p, q = draw(distributions(size)), draw(distributions(size))
    relation = draw(hs.sampled_from(["any", "any", "equal", "disjoint"]))
    if relation == "equal":
        return p, p
    if relation == "disjoint":
        apart = np.where(p == 0, q, zeros_like(q))
        return (p, apart / apart.sum()) if apart.sum() else (p, q)
    return p, q


@hs.composite
def tables(draw: hs.DrawFn, size: int, depth: int) -> dict[Context, tuple[Vector, Vector]]:
    """A pair of distributions for each context of up to `depth` tokens, for `World.table`."""
    contexts = [c for length in range(depth + 1) for c in itertools.product(range(size), repeat=length)]
    return {context: draw(pairs(size)) for context in contexts}


def worlds(size: int, depth: int) -> hs.SearchStrategy[World]:
    """Worlds of `size` tokens whose distributions are drawn anew for each context of up to `depth` tokens."""
    return tables(size, depth).map(World.table)


def shapes(rule: DrawRule) -> list[DrawPolicy]:
    """Small policies that draw by `rule`, the simplest first: single nodes, chains, trees, delayed and merged paths."""
    widest = 2 if rule is DrawRule.HUB else 3
    levels = [(1,), (2,), (1, 1), (widest,), (1, 2), (2, 1), (1, 1, 1), (2, 2), (1, 2, 1)]
    found: list[DrawPolicy] = [Levels(counts, rule) for counts in dict.fromkeys(levels)]
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        found += [Paths(2, 2, 0, rule), Paths(3, 1, 1, rule), Paths(2, 1, 1, rule), Paths(3, 2, 0, rule)]
    return list(dict.fromkeys(found))


@hs.composite
def drafts(draw: hs.DrawFn, size: int = 3, rules: Sequence[DrawRule] = tuple(DrawRule)) -> tuple[Draft, list[Vector]]:
    """(draft, p): one draft that some policy of some rule can draw, and the target's distributions at its nodes."""
    policy = draw(hs.sampled_from([policy for rule in rules for policy in shapes(rule)]))
    world = draw(worlds(size, max_depth(policy)))
    possible = [draft for draft, _ in branches(lambda rng: policy.grow(world, rng))]
    chosen = draw(hs.sampled_from(possible))
    return chosen, world.target(chosen)


def max_depth(policy: DrawPolicy) -> int:
    """Depth of the deepest node that the policy grows."""
    depth = 0
    while policy.draws(depth, 1):
        depth += 1
    return depth
