"""A contest between two drafts: which of two tokens wins, and the distribution of the winner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from spectheory.core.arrays import Vector, copy_of, positive_part, power, zeros_like
from spectheory.otlp.flow import max_flow


@dataclass(frozen=True, eq=False)
class Contest:
    """The contest between a draw from the distribution `first` and one from `second`.

    Attributes:
        first: (V,) distribution of one.
        second: (V,) distribution of the other.
        order: (V,) tokens, the strongest first.
        free: how many of them meet by chances of their own.
        chances: (i, j) -> probability that i wins, for tokens i before j of the free ones that can meet; of all other
            pairs the stronger wins.
        distribution: (V,) of the winner.
    """

    first: Vector
    second: Vector
    order: np.ndarray
    free: int
    chances: dict[tuple[int, int], Any]
    distribution: Vector

    @classmethod
    def between(cls, p: Vector, first: Vector, second: Vector, truncation: int) -> Contest:
        """The contest whose winner's distribution fits under p as well as `truncation` free tokens allow.

        The strongest has the highest p - first * second, of equal ones the lowest token.
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
        """What each token wins where the two draws have these weights, within the supports of `first` and `second`."""
        masses = {(i, j): first[i] * second[j] + first[j] * second[i] for i, j in self.chances}
        return _shared(_ordered(first, second, self.order, self.free), masses, self.chances)

    def regained(self, refused: Vector, rest: Vector) -> Any:
        """Probability that the winner is refused, with `refused` of its token, and the loser then drawn from `rest`."""
        first, second = self.first, self.second
        weaker = first * _weaker(second * rest, self.order, self.free)
        weaker = weaker + second * _weaker(first * rest, self.order, self.free)
        total = weaker @ refused
        for (i, j), chance in self.chances.items():
            mass = first[i] * second[j] + first[j] * second[i]
            total = total + mass * (chance * refused[i] * rest[j] + (1 - chance) * refused[j] * rest[i])
        return total


def one_order(contests: Sequence[Contest], q: Vector) -> np.ndarray | None:
    """The order of the first contest, if it alone decides all contests between tokens that q draws; else None."""
    drawn = np.array((q > 0).tolist())
    first, *others = (contest.order[drawn[contest.order]] for contest in contests)
    by_strength = all(chance == 1 for contest in contests for chance in contest.chances.values())
    return contests[0].order if by_strength and all((first == other).all() for other in others) else None


def regained_in_order(order: np.ndarray, q: Vector, k: int, refused: Vector, rest: Vector) -> Any:
    """Probability that the strongest of k draws from q is refused and another of them then drawn from `rest`.

    Let G be the mass of x and of what x beats, y among it. That x wins while y is not drawn has the probability (G -
    q_y)^k - (G - q_x - q_y)^k. By the binomial theorem, that x wins while y is drawn has -sum_{j >= 1} (k choose j)
    (-q_y)^j (G^(k-j) - (G - q_x)^(k-j)), where x and y meet in products only: a running sum along the order for each j.
    In floating point an error of at most about (1 + max q)^k roundings stays, as j = 0 is left out, where nearly all
    cancels, and the differences of powers are summed without subtraction.
    """
    q, refused, rest, beaten = (v[order] for v in (q, refused, rest, _weaker(q, order, 1)))
    total = 0
    difference = zeros_like(q)  # G^n - (G - q_x)^n
    for n in range(1, k):
        difference = (beaten + q) * difference + q * power(beaten, n - 1)
        stronger = zeros_like(q)
        stronger[1:] = (refused * difference).cumsum(0)[:-1]
        total = total - comb(k, n) * (rest * power(-q, k - n)) @ stronger
    return total


def _ordered(first: Vector, second: Vector, order: np.ndarray, free: int) -> Vector:
    """The weight with which each token is the stronger of two draws, or both of them; two free tokens are left out."""
    return first * second + first * _weaker(second, order, free) + second * _weaker(first, order, free)


def _shared(distribution: Vector, masses: dict[tuple[int, int], Any], chances: dict[tuple[int, int], Any]) -> Vector:
    """`distribution` with the masses of the pairs shared out, in place."""
    for (i, j), mass in masses.items():
        distribution[i] += mass * chances[i, j]
        distribution[j] += mass * (1 - chances[i, j])
    return distribution


def _fitted(masses: dict[tuple[int, int], Any], room: dict[int, Any]) -> dict[tuple[int, int], Any]:
    """The chance of the first token of each pair by which most of the pairs' mass finds room at its tokens.

    Mass without room goes to the first. Several choices find as much; the flow's order of edges makes one of them.
    """
    nodes = {token: node for node, token in enumerate(room)}
    source, sink = len(nodes) + len(masses), len(nodes) + len(masses) + 1
    edges = [(node, sink, room[token]) for token, node in nodes.items()]
    for node, ((i, j), mass) in enumerate(masses.items(), start=len(nodes)):
        edges += [(source, node, mass), (node, nodes[i], mass), (node, nodes[j], mass)]
    to_second = max_flow(edges, source, sink)[len(nodes) + 2 :: 3]
    return {pair: max(1 - flow / masses[pair], 0) for pair, flow in zip(masses, to_second, strict=True)}


def _weaker(v: Vector, order: np.ndarray, free: int) -> Vector:
    """For each token the sum of v over the weaker ones, the free ones aside where it is free itself."""
    weakest_first = order[::-1].copy()
    below = zeros_like(v)
    below[1:] = v[weakest_first].cumsum(0)[:-1]
    below[len(order) - free :] = copy_of(below[len(order) - free])
    sums = zeros_like(v)
    sums[weakest_first] = below
    return sums
