"""Hypothesis strategies for property tests of verifiers: distributions, pairs, worlds, policies, drafts.

All distributions are exact: object arrays of `fractions.Fraction` with small denominators. So tests can compare by
equality, and counterexamples shrink to readable numbers. Needs `hypothesis`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as hs
from hypothesis.errors import NoSuchExample

from spectheory.certify.play import max_depth
from spectheory.core.arrays import Vector, zeros_like
from spectheory.core.chance import branches
from spectheory.core.draft import Draft, DrawRule
from spectheory.core.world import Context, DrawPolicy, Levels, Paths, World

SMALL_WEIGHTS = tuple(Fraction(1, 10**n) for n in range(1, 7))
"""Weights of tokens with a small probability, for rules that act on such tokens."""


@cache
def distributions(size: int, largest_weight: int = 4) -> hs.SearchStrategy[Vector]:
    """Distributions on `size` tokens: weights, divided by their sum.

    The weights are whole numbers from 0 to `largest_weight`; in half of the distributions, some are `SMALL_WEIGHTS`.
    """
    whole = hs.integers(0, largest_weight)
    weights = hs.one_of(
        hs.lists(whole, min_size=size, max_size=size),
        hs.lists(hs.one_of(whole, hs.sampled_from(SMALL_WEIGHTS)), min_size=size, max_size=size),
    ).filter(any)
    return weights.map(lambda w: np.array([Fraction(x) / sum(w) for x in w], dtype=object))


RELATIONS = hs.sampled_from(["any", "any", "equal", "disjoint"])


@cache
@hs.composite
def pairs(draw: hs.DrawFn, size: int) -> tuple[Vector, Vector]:
    """(p, q) on `size` tokens: any two distributions, equal distributions, or distributions with disjoint supports."""
    p, q = draw(distributions(size)), draw(distributions(size))
    relation = draw(RELATIONS)
    if relation == "equal":
        return p, p
    if relation == "disjoint":
        apart = np.where(p == 0, q, zeros_like(q))
        return (p, apart / apart.sum()) if apart.sum() else (p, q)
    return p, q


@hs.composite
def tables(draw: hs.DrawFn, size: int, depth: int) -> dict[Context, tuple[Vector, Vector]]:
    """The pair (p, q) for each context of up to `depth` tokens, as `World.table` takes it."""
    contexts = [c for length in range(depth + 1) for c in itertools.product(range(size), repeat=length)]
    return {context: draw(pairs(size)) for context in contexts}


@lru_cache(maxsize=32)
def generated(size: int, depth: int, count: int, seed: int) -> tuple[dict[Context, tuple[Vector, Vector]], ...]:
    """About `count` examples of `tables`, the same for the same seed. Several policies and certificates share them.

    Hypothesis finds nothing here: its own search for a smaller example looks at the clock, so that the number of worlds
    would depend on the machine.
    """
    found: list[dict[Context, tuple[Vector, Vector]]] = []

    def kept(table: dict[Context, tuple[Vector, Vector]]) -> bool:
        found.append(table)
        return False

    options = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    with suppress(NoSuchExample):
        find(tables(size, depth), kept, settings=options, random=random.Random(seed))
    return tuple(found)


def worlds(size: int, depth: int) -> hs.SearchStrategy[World]:
    """Worlds of `size` tokens with a pair (p, q) of its own for each context of up to `depth` tokens."""
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
    """(draft, p): a draft that a policy of one of `rules` can draw, and the target's distributions at its nodes."""
    policy = draw(hs.sampled_from([policy for rule in rules for policy in shapes(rule)]))
    world = draw(worlds(size, max_depth(policy)))
    possible = [draft for draft, _ in branches(lambda rng: policy.grow(world, rng))]
    chosen = draw(hs.sampled_from(possible))
    return chosen, world.target(chosen)
