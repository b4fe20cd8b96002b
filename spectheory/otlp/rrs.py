"""RRS, recursive rejection sampling without replacement: each draft against the distribution it was drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import Vector, accept_ratio, copy_of, excess, normalised, residual, without, zeros_like
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.solver import Solver
from spectheory.otlp.specinfer import after_rejection
from spectheory.otlp.tries import distribution_of_tries

MOST_EVALUATIONS = 1_000_000
"""Tokens to the power k - 1 up to which the exact acceptance of k > 2 drafts is summed."""


@dataclass(frozen=True)
class RRS(Solver):
    """Accept draft x with probability min(1, p(x) / q(x)); else p becomes N((p - q)+), q loses x, and the next.

    Lossless for draws without replacement in draw order: given those before it, each draft is a draw from what is then
    q, so that each round is rejection sampling of what is then p. Independent draws with repeats left out are such
    draws too: whether another distinct token comes depends on the past alone, and it is then a draw from q without
    those seen. Sorted drafts, or q kept after a rejection, are lossy.

    Acceptance: a_k(p, q) = sum min(p, q) + sum_x (q - p)+(x) a_(k-1)(N((p - q)+), q without x), a_0 = 0. A rejected
        token has no mass in any later residual, so that only an accepted draft counts.
    Cost: O(kV) for the distribution; O(V log V) for the acceptance of 2 drafts, O(V^(k-1) log V) of more.
    Source: arXiv 2402.14160 and 2402.12374 (Sequoia).
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.NO_REPLACEMENT, DrawRule.IID, DrawRule.IID_APART)

    def drafts_in_reach(self, vocabulary: int) -> int | None:
        """See Solver.drafts_in_reach; 2 drafts take one sort on any vocabulary."""
        most = 2
        while 1 < vocabulary**most <= MOST_EVALUATIONS:
            most += 1
        return most

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        """See Solver.distribution."""
        left, rest, mass, tries = p, q, 1, []
        for token in dict.fromkeys(drafts):
            tries.append((token, accept_ratio(left[token], rest[token] * mass)))
            left, mass = after_rejection(left, rest, mass)
            rest = without(rest, token)
        return distribution_of_tries(tries, normalised(left, otherwise=p))

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: Any) -> int:
        """See Solver.sample."""
        left, rest, mass = p, q, 1
        for token in dict.fromkeys(drafts):
            if rng.random() * (rest[token] * mass) < left[token]:
                return token
            left, mass = after_rejection(left, rest, mass)
            rest = without(rest, token)
        return draw(left, rng, otherwise=p)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        """See Solver.acceptance.

        Raises:
            InputError: too many tokens and drafts for the exact sum.
        """
        if k > 2 and len(q) ** (k - 1) > MOST_EVALUATIONS:
            raise InputError(
                f"the exact acceptance of RRS sums over V^(k - 1) drafts, got V = {len(q)} and k = {k}, more than "
                f"{MOST_EVALUATIONS:,}: use estimated_acceptance(RRS(), p, q, k, samples=..., rng=...)"
            )
        return _accepted(p, q, k)


def _accepted(p: Vector, q: Vector, k: int) -> Any:
    """The acceptance of k rounds, by recursion on the first draft rejected."""
    if k == 2:
        return _accepted_of_two(p, q)
    at_once = p.clip(max=q).sum()
    if k == 1:
        return at_once
    rejected, left = excess(q, p), residual(p, q)
    later = (rejected[x] * _accepted(left, without(q, x), k - 1) for x in range(len(q)) if rejected[x] > 0)
    return sum(later, start=at_once)


def _accepted_of_two(p: Vector, q: Vector) -> Any:
    """The acceptance of two rounds, with one sort in place of a sum over V for every first draft x.

    Round two accepts sum_t min(r(t), q(t) / (1 - q(x))), r = N((p - q)+); x itself adds nothing since r(x) = 0. Sorted
    by q(t) / r(t), the tokens before 1 - q(x) add q(t) / (1 - q(x)) and those after it r(t): two running sums.
    """
    size, left, others, top = len(q), residual(p, q), 1 - q, q.argmax()
    others[top] = q[:top].sum() + q[top + 1 :].sum()  # 1 - q would cancel where one token has nearly all of q
    blank = zeros_like(left.repeat(2))  # NumPy repeats each entry, torch the whole vector: all zeros either way
    key, shares, masses, weights, scales = (copy_of(blank) for _ in range(5))
    key[:size], key[size:] = q / (left + (left == 0)), others
    shares[:size], masses[:size] = q * (left > 0), left
    weights[size:], scales[size:] = excess(q, p) * (others > 0), 1 / (others + (others == 0))
    order = key.argsort()
    before, after = shares[order].cumsum(0), left.sum() - masses[order].cumsum(0)
    second = weights[order] * (before * scales[order] + after)
    return p.clip(max=q).sum() + second.sum()
