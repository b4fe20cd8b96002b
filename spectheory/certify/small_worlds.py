"""The small worlds and draft trees on which exact mode compares a verifier with the target.

All distributions are exact: object arrays of `fractions.Fraction`, most of them with small denominators.
"""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from functools import lru_cache

import numpy as np

from spectheory.core.arrays import Vector
from spectheory.core.draft import DrawRule
from spectheory.core.world import Context, DrawPolicy, Levels, Paths

WEIGHTS = 0, 1, 2, 3, 4
"""Weights of tokens before they are divided by their sum."""
SMALL_WEIGHTS = tuple(Fraction(1, 10**n) for n in range(1, 7))
"""Weights of tokens with a small probability, for rules that act on such tokens."""
RELATIONS = *["any"] * 5, "equal", "disjoint", "disjoint"
"""How p and q of a context are related. Most rules are right where they are equal or disjoint."""

Table = dict[Context, tuple[Vector, Vector]]
"""(p, q) by context, as `World.table` takes it."""


@lru_cache(maxsize=32)
def tables(size: int, depth: int, count: int, seed: int) -> tuple[Table, ...]:
    """`count` worlds of `size` tokens for drafts of up to `depth` tokens; the same arguments give the same worlds.

    In a context, p and q are any two distributions, equal ones, or ones of disjoint supports.
    """
    rng = random.Random(f"{seed} {size} {depth}")
    contexts = [c for length in range(depth + 1) for c in itertools.product(range(size), repeat=length)]
    return tuple({context: _pair(size, rng) for context in contexts} for _ in range(count))


def _pair(size: int, rng: random.Random) -> tuple[Vector, Vector]:
    p, q = _distribution(size, rng), _distribution(size, rng)
    relation = rng.choice(RELATIONS)
    if relation == "equal":
        return p, p
    apart = q * (p == 0)
    return (p, apart / apart.sum()) if relation == "disjoint" and apart.sum() else (p, q)


def _distribution(size: int, rng: random.Random) -> Vector:
    """Weights over their sum. In half of the distributions, some are `SMALL_WEIGHTS`."""
    weights: list[int | Fraction] = [rng.choice(WEIGHTS) for _ in range(size)]
    if rng.random() < 0.5:
        weights = [rng.choice((weight, rng.choice(SMALL_WEIGHTS))) for weight in weights]
    if not any(weights):
        weights[rng.randrange(size)] = 1
    return np.array([Fraction(weight) / sum(weights) for weight in weights], dtype=object)


def shapes(rule: DrawRule) -> list[DrawPolicy]:
    """Small policies that draw by `rule`, the simplest first: single nodes, chains, trees, delayed and merged paths."""
    widest = 2 if rule is DrawRule.HUB else 3
    levels = [(1,), (2,), (1, 1), (widest,), (1, 2), (2, 1), (1, 1, 1), (2, 2), (1, 2, 1)]
    found: list[DrawPolicy] = [Levels(counts, rule) for counts in dict.fromkeys(levels)]
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        found += [Paths(2, 2, 0, rule), Paths(3, 1, 1, rule), Paths(2, 1, 1, rule), Paths(3, 2, 0, rule)]
    return list(dict.fromkeys(found))
