"""The worlds and draft trees on which exact mode compares a verifier with the target.

All distributions are object arrays of `fractions.Fraction`. Few tokens show faults of many kinds in few drafts; many
tokens are for rules that keep the most probable ones.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from spectheory.certify.certificate import Case
from spectheory.certify.play import WEIGHTS, max_depth
from spectheory.core.arrays import Vector
from spectheory.core.draft import DrawRule
from spectheory.core.world import Context, DrawPolicy, Levels, Paths

MOST_DRAFTS = 150
"""Maximum number of drafts in one world. Deep nodes of a larger tree are drawn from fewer tokens."""
SIZES = 2, 3
"""Vocabulary sizes of the worlds of every policy."""
MANY = 64
"""Number of tokens of a world for rules that act on many tokens."""
FEW = 3
"""Number of tokens of q or of p in the worlds of many tokens, so that few drafts or outcomes are possible."""
SMALL_WEIGHTS = tuple(Fraction(1, 10**n) for n in range(1, 7))
"""Weights of tokens with a small probability, for rules that act on such tokens."""
RELATIONS = *["any"] * 5, "equal", "near", "disjoint", "disjoint"
"""How p and q of a context are related. Most rules are right where they are equal or disjoint."""


def cases_of(policy: DrawPolicy, size: int, count: int, seed: int) -> Iterator[Case]:
    """`count` random worlds of `size` tokens for a policy; the same arguments give the same worlds.

    In a context, p and q are any two distributions, equal or nearly equal ones, or ones of disjoint supports.
    """
    rng = random.Random(f"{seed} {size} {max_depth(policy)}")
    drafted = drafted_of(policy, size)
    for _ in range(count):
        yield Case(policy, {c: _pair(size, rng, drafted[len(c)]) for c in _contexts(range(size), len(drafted) - 1)})


def cases_of_many(policy: DrawPolicy, seed: int) -> Iterator[Case]:
    """Worlds of many tokens for single nodes and a chain of two: of p, for a single draw of q, or after the first."""
    rng = random.Random(seed)
    few = rng.sample(range(MANY), FEW)
    p, q, narrow = (_on(rng, MANY, tokens) for tokens in (range(MANY), few[: FEW + 1 - max_draws(policy)], few[1:]))
    last = narrow, narrow
    if max_depth(policy) == 1:
        yield _by_depth(policy, (p, q), last)
        yield _by_depth(policy, (narrow, q), (p, p))
    if max_draws(policy) == 1:
        yield _by_depth(policy, (_on(rng, MANY, few), _on(rng, MANY, range(MANY))), *[last] * max_depth(policy))
    if max_depth(policy) > 1:
        yield _by_depth(policy, (narrow, q), (p, q), last)


def _by_depth(policy: DrawPolicy, *pairs: tuple[Vector, Vector]) -> Case:
    """A world whose (p, q) depend on the number of tokens alone, in the contexts that p or q can reach."""
    contexts: list[Context] = [()]
    for context in contexts:
        if len(context) < len(pairs) - 1:
            contexts += [(*context, token) for token in np.flatnonzero(sum(pairs[len(context)])).tolist()]
    return Case(policy, {context: pairs[len(context)] for context in contexts})


def plain_case(policy: DrawPolicy, sizes: Sequence[int]) -> Case:
    """A case whose p has no zeros, and a residual on all tokens but one, which most wrong rules get wrong."""
    few = [size for size in sorted(sizes) if size <= 3] or [min(sizes)]
    size = few[-1] if max_depth(policy) == 1 and max_draws(policy) > 2 else few[0]
    weights = [range(1, size + 1), [size * size, *[1] * (size - 2), int(size == 2)]]
    weights = [(19, 80, 1), (0, 2, 3)] if size == 3 else weights  # the fourth sibling can be rejected
    p, q = (np.array([Fraction(weight, sum(of)) for weight in of], dtype=object) for of in weights)
    return Case(policy, dict.fromkeys(_contexts(range(size), max_depth(policy)), (p, q)))


def _contexts(tokens: Sequence[int], depth: int) -> Iterator[Context]:
    return itertools.chain.from_iterable(itertools.product(tokens, repeat=length) for length in range(depth + 1))


def drafted_of(policy: DrawPolicy, size: int) -> list[int]:
    """For each depth, the largest number of tokens of q with which there are at most `MOST_DRAFTS` drafts."""
    draws = draws_by_depth(policy)
    drafted = [size] * (len(draws) + 1)
    while math.prod(one**count for one, count in zip(drafted, draws, strict=False)) > MOST_DRAFTS:
        deepest = max(depth for depth in range(len(draws)) if drafted[depth] > 1)
        drafted[deepest] -= 1
    return drafted


def draws_by_depth(policy: DrawPolicy) -> list[int]:
    """Maximum number of draws at each depth, of all nodes together."""
    nodes, found = 1, []
    while policy.draws(len(found), 1):
        nodes *= policy.draws(len(found), 1)
        found.append(nodes)
    return found


def max_draws(policy: DrawPolicy) -> int:
    """Maximum number of draws below one node."""
    return max(policy.draws(depth, 1) for depth in range(max_depth(policy)))


def _pair(size: int, rng: random.Random, drafted: int) -> tuple[Vector, Vector]:
    p, q = _distribution(size, rng), _distribution(size, rng)
    relation = rng.choice(RELATIONS)
    apart = q * (p == 0)
    if relation == "disjoint" and apart.sum():
        q = apart / apart.sum()
    possible = np.flatnonzero(q).tolist()
    kept = q * np.isin(range(size), rng.sample(possible, min(drafted, len(possible))))
    q = kept / kept.sum()
    if relation == "near":
        step = rng.choice(SMALL_WEIGHTS)
        p = q * (1 - step) + p * step
    return (q, q) if relation == "equal" else (p, q)


def _distribution(size: int, rng: random.Random) -> Vector:
    """Weights over their sum. In half of the distributions, some are `SMALL_WEIGHTS`."""
    weights: list[int | Fraction] = [rng.choice(WEIGHTS) for _ in range(size)]
    if rng.random() < 0.5:
        weights = [rng.choice((weight, rng.choice(SMALL_WEIGHTS))) for weight in weights]
    if not any(weights):
        weights[rng.randrange(size)] = 1
    return np.array([Fraction(weight) / sum(weights) for weight in weights], dtype=object)


def _on(rng: random.Random, size: int, tokens: Sequence[int]) -> Vector:
    """A distribution of `size` tokens with random weights on some of them, a third of which are small."""
    weights = [Fraction(0)] * size
    for token in tokens:
        weights[token] = Fraction(rng.choice(WEIGHTS[1:])) if rng.random() < 2 / 3 else rng.choice(SMALL_WEIGHTS)
    return np.array(weights, dtype=object) / sum(weights)


def shapes(rule: DrawRule) -> list[DrawPolicy]:
    """Small policies that draw by `rule`, the simplest first: single nodes, chains, trees, delayed and merged paths."""
    hub = rule is DrawRule.HUB
    levels = "1 2 11 12 21 22 121 11111" if hub else "1 2 11 3 4 12 21 31 14 22 211 112 11111"
    found: list[DrawPolicy] = [Levels(tuple(map(int, counts)), rule) for counts in levels.split()]
    if rule in (DrawRule.IID, DrawRule.IID_APART):
        found += [Paths(2, 2, 0, rule), Paths(3, 1, 1, rule), Paths(2, 1, 1, rule), Paths(3, 2, 0, rule)]
    return found
