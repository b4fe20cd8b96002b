"""Drafts in random worlds, and the distributions of verified outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

import spectheory as st
from spectheory import DrawRule, Levels, Paths, World, branches
from spectheory.core.world import Context
from spectheory.verify import Block, Outcome
from tests.enumeration import exact, random_distribution

CHAINS = [Levels((1,) * length, rule) for length in (1, 2, 3) for rule in Block().rules]
TREES = [Levels(counts) for counts in [(1, 1), (2,), (3,), (1, 2), (2, 1), (3, 1), (1, 1, 2), (2, 2)]]
SIZES = [(2, 1, 0), (3, 1, 0), (2, 2, 0), (2, 1, 1), (3, 2, 0), (2, 2, 1), (2, 3, 0), (1, 2, 0), (2, 1, 2)]
PATHS = [Paths(paths, length, trunk) for paths, length, trunk in SIZES]
OTHERS = [
    replace(policy, rule=rule)
    for rule in (DrawRule.IID_APART, DrawRule.NO_REPLACEMENT)
    for policy in [Levels((2,)), Levels((3,)), Levels((1, 2)), Levels((2, 1)), Levels((3, 1)), Levels((1, 1, 2))]
]
WIDE = [Levels((2, 2), DrawRule.NO_REPLACEMENT), Levels((2, 2), DrawRule.IID_APART), Paths(2, 2, 1, DrawRule.IID_APART)]
HUBS = [Levels(counts, DrawRule.HUB) for counts in [(2,), (2, 1), (1, 2), (2, 2)]]
TOPS = [Levels(counts, DrawRule.TOP_K_THEN_ONE) for counts in [(1,), (2,), (3,), (1, 2), (2, 1), (1, 1, 2), (2, 2)]]


def random_world(rng: np.random.Generator, size: int, new: Callable = random_distribution) -> World:
    """Distributions of their own for each context: p = q, disjoint supports and one-hot distributions stand beside
    others with zeros. They are made when they are asked for, by random numbers of their context alone.
    """
    seed = int(rng.integers(2**32))

    @cache
    def pair(context: Context) -> tuple[np.ndarray, np.ndarray]:
        own = np.random.default_rng((seed, len(context), *context))
        kind, p, q = int(own.integers(9)), new(own, size), new(own, size)
        one_hot = exact(*(own.permutation(size) == 0).astype(int).tolist()) if kind in (1, 2, 3) else q
        if kind == 3:
            outside = p * (one_hot == 0)
            p = outside / outside.sum() if outside.sum() else p
        return {0: (p, p), 1: (one_hot, q), 2: (p, one_hot), 3: (p, one_hot)}.get(kind, (p, q))

    return World(lambda context: pair(context)[0], lambda context: pair(context)[1])


def grown(policy: Any, seed: int, size: int, new: Callable = random_distribution) -> tuple[st.Draft, list[np.ndarray]]:
    """A draft and the target's distributions at its nodes, in a random world."""
    rng = np.random.default_rng(seed)
    world = random_world(rng, size, new)
    draft = policy.grow(world, rng)
    return draft, world.target(draft)


def joint(outcome: Outcome) -> dict[tuple[int, int], Fraction]:
    """The distribution of (last accepted node, next token), zeros left out."""
    return {
        (node, token): stop * share
        for node, stop in enumerate(outcome.stop)
        for token, share in enumerate(outcome.next_token[node])
        if stop * share
    }


def played(program: Callable[[Any], tuple[int, int]]) -> dict[tuple[int, int], Fraction]:
    """The distribution of what a sampling procedure returns, by playing all its branches."""
    found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for result, chance in branches(program):
        found[result] += chance
    return {result: mass for result, mass in found.items() if mass}
