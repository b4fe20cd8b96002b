"""`Khisti`, importance-weighted selection: choose one draft by contests of two, then apply the naive rule to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, accept_ratio, copy_of, positive_part, residual, set_zero
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.contest import Contest
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
