"""The worlds in which the black-box test plays a verifier. Together they condemn the wrong rules of the zoo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spectheory.certify.play import MOST_CELLS, Play, as_step, max_depth
from spectheory.core.world import DrawPolicy, World

TOKENS = 3
"""Vocabulary size of all worlds. It is small, so that few cells share the runs."""

Rows = tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]
"""Row t has the weights of the next token after token t."""


WORLDS: dict[str, tuple[Rows, Rows]] = {
    "zeros in p and q": (((1, 1, 0), (0, 1, 1), (2, 0, 2)), ((0, 1, 3), (0, 2, 4), (3, 0, 1))),
    "zeros in q": (((1, 1, 3), (2, 3, 3), (4, 2, 1)), ((1, 0, 1), (0, 4, 3), (4, 4, 0))),
    "narrow q": (((3, 2, 2), (0, 1, 3), (1, 2, 3)), ((0, 3, 4), (3, 0, 1), (0, 0, 4))),
    "few zeros": (((4, 4, 3), (3, 1, 2), (1, 2, 2)), ((1, 3, 1), (1, 4, 0), (3, 2, 4))),
    "small probabilities": (((78, 19, 3), (3, 78, 19), (19, 3, 78)), ((19, 78, 3), (78, 3, 19), (3, 78, 19))),
}
"""Weights of p and q in Markov worlds that start after token 0.

The first four were chosen by exact total variations: each wrong rule of the zoo is far off in one of them.
"""


def worlds_of(seed: int) -> dict[str, World]:
    """The worlds of a black-box test by name: `WORLDS`, and one with random distributions."""
    given = {
        name: tuple(np.array(w, float) / np.sum(w, axis=1, keepdims=True) for w in of) for name, of in WORLDS.items()
    }
    rng = np.random.default_rng(seed)
    given[f"random, seed {seed}"] = tuple(rng.dirichlet(np.ones(TOKENS), TOKENS) for _ in range(2))
    return {name: World.markov(p, q) for name, (p, q) in given.items()}


def plays_of(given: Any, policy: DrawPolicy, seed: int) -> Sequence[Play]:
    """A verifier on drafts of `policy` in each world, compared on as many tokens as two cycles need."""
    length = length_of_two_cycles(max_depth(policy) + 1, TOKENS)
    return [
        Play(name, as_step(given, policy, world), world.p, ((),), length, TOKENS)
        for name, world in worlds_of(seed).items()
    ]


def length_of_two_cycles(longest: int, vocab_size: int) -> int:
    """The number of tokens to compare if a cycle emits up to `longest`: one more, so that a second cycle shows.

    It is less if the joint distribution would have more than `MOST_CELLS` cells.
    """
    length = longest + 1
    while length > 1 and vocab_size**length > MOST_CELLS:
        length -= 1
    return length
