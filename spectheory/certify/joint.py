"""The joint distribution of the target's next few tokens, and expectations given an emitted prefix of them."""

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

    A prefix of l tokens is row `code` of level l, its tokens read as a number in base V. A node is a prefix of 1 to
    `length` tokens, numbered level by level.

    Attributes:
        given: `given[m]` (V^m, V) distribution of the next token after each prefix of m tokens.
        levels: `levels[l]` (V^l,) probability of each prefix of l tokens.
        offsets: `offsets[l]` number of the first node of level l; the last entry is the number of nodes.
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
        """The joint distribution after `context`; each of the target's distributions is divided by its sum.

        Raises:
            InputError: what the target returns is not a distribution, or not one on `vocab_size` tokens.
        """
        given = []
        for m in range(length):
            prefixes = itertools.product(range(vocab_size), repeat=m)
            given.append(np.array([_distribution(target, (*context, *prefix), vocab_size) for prefix in prefixes]))
        return cls(given)

    @cached_property
    def impossible(self) -> list[bool]:
        """(nodes,) whether the target never emits each prefix; a list, since it is read one by one."""
        return (np.concatenate(self.levels[1:]) == 0).tolist()

    @property
    def nodes(self) -> int:
        """Number of prefixes of 1 to `length` tokens."""
        return self.offsets[-1]

    def tokens(self, node: int) -> Context:
        """The prefix with the number `node`."""
        level = next(level for level in range(1, self.length + 1) if node < self.offsets[level + 1])
        code, found = node - self.offsets[level], []
        for _ in range(level):
            code, token = divmod(code, self.vocab_size)
            found.append(token)
        return tuple(reversed(found))

    def by_level(self, values: np.ndarray) -> list[np.ndarray]:
        """(nodes,) values as one view a level; entry 0 is that of the empty prefix, which is not a node: 0."""
        cuts = self.offsets[1:]
        return [np.zeros(1), *(values[start:stop] for start, stop in itertools.pairwise(cuts))]

    def extended(self, ended: np.ndarray) -> list[np.ndarray]:
        """Expected number of runs that begin with each prefix once the target has filled every run up to `length`.

        `ended` (nodes,) counts the emitted prefixes. One array a level.
        """
        ends = self.by_level(ended)
        filled = ends[0]
        for m, distribution in enumerate(self.given):
            filled = (filled[:, None] * distribution).ravel() + ends[m + 1]
        found = [filled]
        for _ in self.given:
            found.append(found[-1].reshape(-1, self.vocab_size).sum(axis=1))
        return found[::-1]

    def begun(self, ended: np.ndarray) -> list[np.ndarray]:
        """For each prefix, the number of runs whose own output starts with it. One array per level.

        Output that the target would fill in, as in `extended`, does not count.
        """
        ends = self.by_level(ended)
        found = [ends[-1]]
        for level in range(self.length - 1, -1, -1):
            found.append(ends[level] + found[-1].reshape(-1, self.vocab_size).sum(axis=1))
        return found[::-1]

    def expected(self, payoff: np.ndarray, level: int) -> np.ndarray:
        """(nodes,) the expectation, over the target's extension of each prefix, of a payoff on the prefixes of a level.

        `payoff` (V^level,): what the first `level` tokens pay.
        """
        folded = [payoff]
        for m in range(level - 1, 0, -1):
            folded.append((self.given[m] * folded[-1].reshape(-1, self.vocab_size)).sum(axis=1))
        folded.reverse()
        for _ in range(level, self.length):
            folded.append(np.repeat(folded[-1], self.vocab_size))
        return np.concatenate(folded)

    def below(self, level: int, rows: np.ndarray, deeper: int) -> np.ndarray:
        """(rows, V^(deeper - level)) distribution of the tokens up to `deeper`, given prefixes `rows` of `level`."""
        distribution = np.ones((len(rows), 1))
        codes = rows[:, None]
        for m in range(level, deeper):
            distribution = (distribution[:, :, None] * self.given[m][codes]).reshape(len(rows), -1)
            codes = (codes[:, :, None] * self.vocab_size + np.arange(self.vocab_size)).reshape(len(rows), -1)
        return distribution


def _distribution(target: Callable[[Context], Vector], context: Context, vocab_size: int) -> np.ndarray:
    distribution = np.asarray(target(context), dtype=np.float64)
    check_distribution(f"target({context})", distribution)
    if len(distribution) != vocab_size:
        raise InputError(
            f"target({context}) must be a distribution on vocab_size = {vocab_size} tokens, got {len(distribution)}: "
            "set vocab_size to the number of tokens that the target knows"
        )
    return distribution / distribution.sum()
