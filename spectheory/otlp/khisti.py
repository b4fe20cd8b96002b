"""`Khisti`, importance-weighted selection: choose one draft by contests of two, then apply the naive rule to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from spectheory.core.arrays import Vector, accept_ratio, copy_of, positive_part, residual, set_zero, zeros_like
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.flow import max_flow
from spectheory.otlp.naive import Naive
from spectheory.otlp.optimal_acceptance import optimal_acceptance
from spectheory.otlp.solver import Solver


@dataclass(frozen=True)
class Khisti(Solver):
    """Choose one draft, the winner, by contests of two. Then apply the naive rule to it.

    The naive rule: if the winner x has the distribution r, it is emitted with probability min(1, p(x) / r(x)), else a
    token of N((p - r)+) is emitted.

    The first two drafts have a contest, then the winner and the next draft, and so on. If the two drafts have the
    distributions r and q, the token with the higher p - r q wins. Only between two of the `truncation` tokens of
    highest p - r q, chance decides, with probabilities that keep as much as possible of the winner's distribution
    below p.

    Lossless for any such probabilities: they depend on p, q and k only, so the winner is a draw from a known
    distribution r, and the naive rule is lossless for one draw from r. The guard chooses between this and the naive
    rule by p, q and k only, so it is lossless too. Since sum min(p, r) is at most the acceptance of this solver, the
    acceptance with the guard is never below the acceptance of the naive rule.

    `_distribution` sums over the winners x: B(t) = sum_x P(x wins) [a_x 1[t = x] + (1 - a_x) N((p - r)+)(t)] for each
    token t, with a_x = min(1, p(x) / r(x)). Algorithm 15 of Dynamic Delayed Tree Expansion, read literally, counts
    t = x only. It misses the mass of the residual on the other drafts.

    Attributes:
        truncation: number of tokens between which chance decides; for k = 2 the whole vocabulary gives the optimum.
        guard: whether to use the naive rule if it accepts at least sum min(p, r), for example if p = q.

    Raises:
        InputError: truncation is below 1.

    Acceptance: sum min(p, r), plus the mass of the residual on the drafts that lost: sum_y N((p - r)+)(y) sum_x (1 -
        min(1, p(x) / r(x))) (r(x) - u_y(x)), where u_y(x) is the probability that x wins and y is not drafted; it is
        computed by the same contests with y left out of q. For k > 2 this costs O(k (V + s^2)) for each y with p > r,
        at most O(k V (V + s^2)). `acceptance_bounds` is cheaper. Dynamic Delayed Tree Expansion gives the first sum as
        a lower bound, and says that the acceptance cannot be computed efficiently.
    Cost: O(k (V log V + s^2)) and k - 1 maximum flows of s^2 / 2 pairs, s = truncation.
    Source: arXiv 2410.18234 (Khisti et al.); Dynamic Delayed Tree Expansion, B.5 and Algorithms 5, 10 and 15.
    """

    truncation: int = 8
    guard: bool = False

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.IID, DrawRule.IID_APART)

    def __post_init__(self) -> None:
        if self.truncation < 1:
            raise InputError(f"truncation must be at least 1 token, got {self.truncation}")

    def variants(self) -> tuple[Solver, ...]:
        return (replace(self, guard=not self.guard),)

    def drafts_in_reach(self, vocabulary: int) -> int | None:
        return None if vocabulary <= 1000 else 2

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        contests, r = self._ladder(p, q, len(drafts))
        if self._naive(p, q, r, len(drafts)):
            return Naive()._distribution(p, q, drafts)
        winners: dict[int, Any] = {drafts[0]: 1}
        for contest, token in zip(contests, drafts[1:], strict=True):
            won = sum(chance * contest.chance(token, winner) for winner, chance in winners.items() if winner != token)
            winners = {winner: chance * contest.chance(winner, token) for winner, chance in winners.items()}
            winners[token] = winners.get(token, 0) + won
        accepted = {winner: accept_ratio(p[winner], r[winner]) for winner in winners}
        distribution = residual(p, r) * sum(chance * (1 - accepted[winner]) for winner, chance in winners.items())
        for winner, chance in winners.items():
            distribution[winner] += chance * accepted[winner]
        return distribution

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        contests, r = self._ladder(p, q, k)
        if self._naive(p, q, r, k):
            return Naive()._acceptance(p, q, k)
        refused, rest = 1 - accept_ratio(p, r), residual(p, r)
        if k <= 2:
            return _overlap(p, r) + sum(contest.regained(refused, rest) for contest in contests)
        drawn = [token for token, chance in enumerate(rest.tolist()) if chance]
        missed = sum(rest[token] * (refused @ _winner_without(token, contests, q)) for token in drawn)
        return _overlap(p, r) + refused @ r - missed

    def acceptance_bounds(self, p: Vector, q: Vector, k: int) -> tuple[Any, Any]:
        """(lower, upper) bounds of the acceptance of k drafts: sum min(p, r), and the optimum over all solvers.

        With the guard, the lower bound may be the acceptance of the naive rule.

        Raises:
            InputError: p or q is not a distribution, their lengths differ, or k is below 1.
        """
        upper = optimal_acceptance(p, q, k)
        _, r = self._ladder(p, q, k)
        return (Naive()._acceptance(p, q, k) if self._naive(p, q, r, k) else _overlap(p, r)), upper

    def _ladder(self, p: Vector, q: Vector, k: int) -> tuple[list[Contest], Vector]:
        """The k - 1 contests, and the distribution of the winner of the last contest."""
        contests, r = [], q
        for _ in range(k - 1):
            contests.append(Contest.between(p, r, q, self.truncation))
            r = contests[-1].distribution
        return contests, r

    def _naive(self, p: Vector, q: Vector, r: Vector, k: int) -> bool:
        return self.guard and bool(Naive()._acceptance(p, q, k) >= _overlap(p, r))


def _winner_without(token: int, contests: list[Contest], q: Vector) -> Vector:
    """(V,) probability that each token wins and `token` is not drafted."""
    left = copy_of(q)
    set_zero(left, token)
    won = left
    for contest in contests:
        won = contest.won(won, left)
    return won


def _overlap(p: Vector, r: Vector) -> Any:
    return p.sum() - positive_part(p - r).sum()


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
