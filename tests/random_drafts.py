"""Drafts in random worlds, and the distributions of verified outputs."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

import spectheory as st
from spectheory import DrawRule, Levels, Paths, World, branches
from spectheory.verify import Block, Outcome
from tests.enumeration import exact, random_distribution

CHAINS = [Levels((1,) * length, rule) for length in (1, 2, 3) for rule in Block().rules]
TREES = [Levels(counts) for counts in [(1, 1), (2,), (3,), (1, 2), (2, 1), (3, 1), (1, 1, 2), (2, 2)]]
PATHS = [Paths(*sizes) for sizes in [(2, 1), (3, 1), (2, 2), (2, 1, 1), (3, 2), (2, 2, 1), (2, 3), (1, 2), (2, 1, 2)]]
OTHERS = [
    replace(policy, rule=rule)
    for rule in (DrawRule.IID_APART, DrawRule.NO_REPLACEMENT)
    for policy in [Levels((2,)), Levels((3,)), Levels((1, 2)), Levels((2, 1)), Levels((3, 1)), Levels((1, 1, 2))]
]
WIDE = [Levels((2, 2), DrawRule.NO_REPLACEMENT), Levels((2, 2), DrawRule.IID_APART), Paths(2, 2, 1, DrawRule.IID_APART)]
HUBS = [Levels(counts, DrawRule.HUB) for counts in [(2,), (2, 1), (1, 2), (2, 2)]]
TOPS = [Levels(counts, DrawRule.TOP_K_THEN_ONE) for counts in [(1,), (2,), (3,), (1, 2), (2, 1), (1, 1, 2), (2, 2)]]


def random_world(rng: np.random.Generator, size: int, depth: int, new: Callable = random_distribution) -> World:
    """Distributions of their own for each context: p = q, disjoint supports and one-hot distributions stand beside
    others with zeros.
    """

    def pair() -> tuple[np.ndarray, np.ndarray]:
        p, q, one_hot = new(rng, size), new(rng, size), exact(*(rng.permutation(size) == 0).astype(int).tolist())
        outside = p * (one_hot == 0)
        apart = outside / outside.sum() if outside.sum() else p
        kinds = [(p, p), (one_hot, q), (p, one_hot), (apart, one_hot), *[(p, q)] * 5]
        return kinds[int(rng.integers(len(kinds)))]

    contexts = itertools.chain(*(itertools.product(range(size), repeat=length) for length in range(depth + 1)))
    return World.table({context: pair() for context in contexts})


def grown(policy: Any, seed: int, size: int, new: Callable = random_distribution) -> tuple[st.Draft, list[np.ndarray]]:
    """A draft and the target's distributions at its nodes, in a random world."""
    rng = np.random.default_rng(seed)
    world = random_world(rng, size, 4, new)
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
