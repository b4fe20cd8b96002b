"""Which worlds a policy is compared in: how many drafts it has, and vocabulary sizes."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from spectheory.certify.as_step import max_depth
from spectheory.certify.certificate import Case
from spectheory.core.world import DrawPolicy

MOST_DRAFTS = 256
"""Maximum number of drafts in one world. A policy with more is covered only with a smaller vocabulary."""
MOST_DRAFTS_ASKED = 20_000
"""Maximum number of drafts that a policy may have with the smallest vocabulary."""
SIZES = 2, 3
"""Vocabulary sizes of the worlds."""
LARGE_SIZE = 6
"""Vocabulary size of further worlds for the smallest policies, for rules that act on many tokens."""
MOST_DRAFTS_LARGE = 36
"""Maximum number of drafts of a policy in a world of `LARGE_SIZE` tokens."""


def plain_case(policy: DrawPolicy, size: int) -> Case:
    """A case whose world has no zeros and different p and q."""
    weights = np.array([Fraction(i + 1) for i in range(size)], dtype=object)
    p = weights / weights.sum()
    depths = range(max_depth(policy) + 1)
    return Case(policy, {c: (p, p[::-1]) for depth in depths for c in itertools.product(range(size), repeat=depth)})


def most_drafts(policy: DrawPolicy, size: int) -> int:
    """Maximum number of different drafts of a policy: one for each sequence of draws."""
    nodes, draws, depth = 1, 0, 0
    while policy.draws(depth, 1):
        nodes *= policy.draws(depth, 1)
        draws, depth = draws + nodes, depth + 1
    return size**draws


def sizes_of(policy: DrawPolicy) -> tuple[int, ...]:
    """The vocabulary sizes of the worlds for a policy."""
    is_small = max_depth(policy) == 1 and most_drafts(policy, LARGE_SIZE) <= MOST_DRAFTS_LARGE
    return (*SIZES, LARGE_SIZE) if is_small else SIZES
