"""`Contest`, the choice of one of two drafts (the winner), and the distribution of the winner."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, copy_of, positive_part, zeros_like
from spectheory.otlp.flow import max_flow


@dataclass(frozen=True, eq=False)
class Contest:
    """The choice of one of two tokens, a draw from the distribution `first` and a draw from `second`.

    Attributes:
        first: (V,) distribution of the first token.
        second: (V,) distribution of the second token.
        order: (V,) all tokens, the strongest first.
        free: number of strongest tokens (the free tokens) whose pairs are decided by `chances`.
        chances: for each pair (i, j) of free tokens that can be drawn, i before j in `order`, the probability that i
            wins. In all other pairs the stronger token wins.
        distribution: (V,) distribution of the winner.
    """

    first: Vector
    second: Vector
    order: np.ndarray
    free: int
    chances: dict[tuple[int, int], Any]
    distribution: Vector

    @classmethod
    def between(cls, p: Vector, first: Vector, second: Vector, truncation: int) -> Contest:
        """The contest in which as much as possible of the winner's distribution is below p.

        There are `truncation` free tokens. Tokens are ordered by p - first * second, the highest first; of equal ones
        the lower token comes first.
        """
        order = np.argsort(-np.array((p - first * second).tolist()), kind="stable")
        free = order[:truncation].tolist()
        distribution = _ordered(first, second, order, len(free))
        a, b, room = (
            dict(zip(free, v[free].tolist(), strict=True)) for v in (first, second, positive_part(p - distribution))
        )
        masses = {(i, j): a[i] * b[j] + a[j] * b[i] for i, j in combinations(free, 2)}
        masses = {pair: mass for pair, mass in masses.items() if mass > 0}
        chances = _fitted(masses, room)
        return cls(first, second, order, len(free), chances, _shared(distribution, masses, chances))

    def chance(self, token: int, other: int) -> Any:
        """Probability that `token` wins against `other`."""
        if token == other:
            return 1
        if np.flatnonzero(self.order == token) > np.flatnonzero(self.order == other):
            return 1 - self.chance(other, token)
        return self.chances.get((token, other), 1)

    def won(self, first: Vector, second: Vector) -> Vector:
        """(V,) weight with which each token wins, if these are the weights of the draws, within the two supports."""
        masses = {(i, j): first[i] * second[j] + first[j] * second[i] for i, j in self.chances}
        return _shared(_ordered(first, second, self.order, self.free), masses, self.chances)

    def regained(self, refused: Vector, rest: Vector) -> Any:
        """Probability that the winner x is refused, with probability refused[x], and `rest` draws the loser."""
        first, second = self.first, self.second
        weaker = first * _weaker(second * rest, self.order, self.free)
        weaker = weaker + second * _weaker(first * rest, self.order, self.free)
        total = weaker @ refused
        for (i, j), chance in self.chances.items():
            mass = first[i] * second[j] + first[j] * second[i]
            total = total + mass * (chance * refused[i] * rest[j] + (1 - chance) * refused[j] * rest[i])
        return total


def _ordered(first: Vector, second: Vector, order: np.ndarray, free: int) -> Vector:
    """(V,) weight with which each token is the stronger of two draws, or both; pairs of free tokens are left out."""
    return first * second + first * _weaker(second, order, free) + second * _weaker(first, order, free)


def _shared(distribution: Vector, masses: dict[tuple[int, int], Any], chances: dict[tuple[int, int], Any]) -> Vector:
    """Add to each token, in place, the share of the mass of each of its pairs that it wins."""
    for (i, j), mass in masses.items():
        distribution[i] += mass * chances[i, j]
        distribution[j] += mass * (1 - chances[i, j])
    return distribution


def _fitted(masses: dict[tuple[int, int], Any], room: dict[int, Any]) -> dict[tuple[int, int], Any]:
    """For each pair, the probability that its first token wins, such that as much mass as possible fits into `room`.

    The mass that does not fit goes to the first token. If several solutions are equally good, the order of the edges
    decides.
    """
    nodes = {token: node for node, token in enumerate(room)}
    source, sink = len(nodes) + len(masses), len(nodes) + len(masses) + 1
    edges = [(node, sink, room[token]) for token, node in nodes.items()]
    for node, ((i, j), mass) in enumerate(masses.items(), start=len(nodes)):
        edges += [(source, node, mass), (node, nodes[i], mass), (node, nodes[j], mass)]
    to_second = max_flow(edges, source, sink)[len(nodes) + 2 :: 3]
    return {pair: max(1 - flow / masses[pair], 0) for pair, flow in zip(masses, to_second, strict=True)}


def _weaker(v: Vector, order: np.ndarray, free: int) -> Vector:
    """For each token, the sum of v over the weaker tokens; for a free token, over the tokens that are not free."""
    weakest_first = order[::-1].copy()
    below = zeros_like(v)
    below[1:] = v[weakest_first].cumsum(0)[:-1]
    below[len(order) - free :] = copy_of(below[len(order) - free])
    sums = zeros_like(v)
    sums[weakest_first] = below
    return sums
