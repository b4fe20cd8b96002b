"""The joint distribution of the target's next few tokens, and expectations given an emitted prefix."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from spectheory.core.arrays import Vector, check_distribution
from spectheory.core.errors import InputError
from spectheory.core.world import Context


class Joint:
    """The joint distribution of the `length` tokens that the target emits after a context.

    A node is a prefix of 1 to `length` tokens. Level l holds the prefixes of l tokens, and the row of a prefix in its
    level is its tokens read as a number in base V. Nodes are numbered level by level.

    Attributes:
        given: `given[m]` is the (V^m, V) distribution of the next token after each prefix of m tokens.
        levels: `levels[l]` is the (V^l,) probability of each prefix of l tokens.
        offsets: `offsets[l]` is the number of the first node of level l; the last entry is the number of nodes.
    """

    def __init__(self, given: Sequence[np.ndarray]) -> None:
        self.given = list(given)
        self.length = len(self.given)
        self.vocab_size = self.given[0].shape[1]
        self.levels = [np.ones(1)]
        for distribution in self.given:
            self.levels.append((self.levels[-1][:, None] * distribution).ravel())
        sizes = [0, *(len(level) for level in self.levels[1:])]
        self.offsets = [0, *itertools.accumulate(sizes)]

    @classmethod
    def after(cls, target: Callable[[Context], Vector], context: Context, length: int, vocab_size: int) -> Joint:
        """The joint distribution after `context`. Each of the target's distributions is divided by its sum.

        Raises:
            InputError: the target does not return a distribution on `vocab_size` tokens.
        """
        levels = [itertools.product(range(vocab_size), repeat=m) for m in range(length)]
        return cls([np.array([_distribution(target, context + tokens, vocab_size) for tokens in of]) for of in levels])

    @cached_property
    def impossible(self) -> list[bool]:
        """(nodes,) whether each prefix has probability 0. It is a list, which is faster to read entry by entry."""
        return (np.concatenate(self.levels[1:]) == 0).tolist()

    @property
    def nodes(self) -> int:
        """Number of prefixes of 1 to `length` tokens."""
        return self.offsets[-1]

    def tokens(self, node: int) -> Context:
        """The tokens of the prefix with number `node`."""
        level = next(level for level in range(1, self.length + 1) if node < self.offsets[level + 1])
        code, found = node - self.offsets[level], []
        for _ in range(level):
            code, token = divmod(code, self.vocab_size)
            found.append(token)
        return tuple(reversed(found))

    def node(self, tokens: Context) -> int:
        """The number of a prefix of 1 to `length` tokens."""
        code = 0
        for token in tokens:
            code = code * self.vocab_size + token
        return self.offsets[len(tokens)] + code

    def by_level(self, values: np.ndarray) -> list[np.ndarray]:
        """(nodes,) values as one view per level. Entry 0, for the empty prefix, is 0."""
        cuts = self.offsets[1:]
        return [np.zeros(1), *(values[start:stop] for start, stop in itertools.pairwise(cuts))]

    def extended(self, ended: np.ndarray) -> list[np.ndarray]:
        """For each prefix, the expected number of runs that start with it, after the target has extended all runs.

        `ended` (nodes,) counts the emitted prefixes. The result has one array per level.
        """
        ends = self.by_level(ended)
        filled = ends[0]
        for m, distribution in enumerate(self.given):
            filled = (filled[:, None] * distribution).ravel() + ends[m + 1]
        found = [filled]
        for _ in self.given:
            found.append(found[-1].reshape(-1, self.vocab_size).sum(axis=1))
        return found[::-1]

    def expected(self, payoff: np.ndarray, level: int) -> np.ndarray:
        """(nodes,) expected payoff of each prefix, after the target has extended it.

        `payoff` (V^level,) is the payoff of each sequence of the first `level` tokens.
        """
        folded = [payoff]
        for m in range(level - 1, 0, -1):
            folded.append((self.given[m] * folded[-1].reshape(-1, self.vocab_size)).sum(axis=1))
        folded.reverse()
        for _ in range(level, self.length):
            folded.append(np.repeat(folded[-1], self.vocab_size))
        return np.concatenate(folded)


def _distribution(target: Callable[[Context], Vector], context: Context, vocab_size: int) -> np.ndarray:
    distribution = np.asarray(target(context), dtype=np.float64)
    check_distribution(f"target({context})", distribution)
    if len(distribution) != vocab_size:
        raise InputError(
            f"target({context}) must be a distribution on vocab_size = {vocab_size} tokens, got {len(distribution)}: "
            "set vocab_size to the number of tokens that the target knows"
        )
    return distribution / distribution.sum()
