"""`RRS`, recursive rejection sampling for drafts without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectheory.core.arrays import (
    RandomSource,
    Vector,
    accept_ratio,
    copy_of,
    excess,
    normalised,
    residual,
    without,
    zeros_like,
)
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.solver import Solver, distribution_of_tries
from spectheory.otlp.specinfer import after_rejection

MOST_EVALUATIONS = 1_000_000
"""Maximum of V^(k - 1) for which the exact acceptance of k > 2 drafts is computed."""


@dataclass(frozen=True)
class RRS(Solver):
    """Try the drafts in draw order: accept draft x with probability min(1, p(x) / q(x)).

    After a rejection p becomes N((p - q)+), x is removed from q, and the next draft is tried. If all are rejected, the
    token is drawn from the last p.

    Lossless for draws without replacement in draw order: given the earlier drafts, each draft is a draw from the
    current q, so each round is rejection sampling of the current p. Independent draws without their repeats are such
    draws too: given that another distinct token follows, it is a draw from q without the tokens seen before. Sorted
    drafts are lossy, and so is a q from which rejected tokens are not removed.

    Acceptance: a_k(p, q) = sum min(p, q) + sum_x (q - p)+(x) a_(k-1)(N((p - q)+), q without x), a_0 = 0. A rejected
        token has no mass in later residuals, so only accepted drafts count.
    Cost: O(kV) for the distribution; O(V log V) for the acceptance of 2 drafts, O(V^(k-1) log V) of more.
        The acceptance is refused with an InputError where k > 2 and V^(k - 1) is above `MOST_EVALUATIONS`.
    Source: arXiv 2402.14160 and 2402.12374 (Sequoia).
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.NO_REPLACEMENT, DrawRule.IID, DrawRule.IID_APART)

    def drafts_in_reach(self, vocabulary: int) -> int | None:
        most = 2
        while 1 < vocabulary**most <= MOST_EVALUATIONS:
            most += 1
        return most

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        left, rest, mass, tries = p, q, 1, []
        for token in dict.fromkeys(drafts):
            tries.append((token, accept_ratio(left[token], rest[token] * mass)))
            left, mass = after_rejection(left, rest, mass)
            rest = without(rest, token)
        return distribution_of_tries(tries, normalised(left, otherwise=p))

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: RandomSource) -> int:
        left, rest, mass = p, q, 1
        for token in dict.fromkeys(drafts):
            if rng.random() * (rest[token] * mass) < left[token]:
                return token
            left, mass = after_rejection(left, rest, mass)
            rest = without(rest, token)
        return draw(left, rng, otherwise=p)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        if k > 2 and len(q) ** (k - 1) > MOST_EVALUATIONS:
            raise InputError(
                f"the exact acceptance of RRS sums over V^(k - 1) drafts, got V = {len(q)} and k = {k}, more than "
                f"{MOST_EVALUATIONS:,}: use estimated_acceptance(RRS(), p, q, k, samples=..., rng=...)"
            )
        return _accepted(p, q, k)


def _accepted(p: Vector, q: Vector, k: int) -> Any:
    """The acceptance of k rounds, by recursion over the first rejected draft."""
    if k == 2:
        return _accepted_of_two(p, q)
    at_once = p.clip(max=q).sum()
    if k == 1:
        return at_once
    rejected, left = excess(q, p), residual(p, q)
    later = (rejected[x] * _accepted(left, without(q, x), k - 1) for x in range(len(q)) if rejected[x] > 0)
    return sum(later, start=at_once)


def _accepted_of_two(p: Vector, q: Vector) -> Any:
    """The acceptance of two rounds, with one sort instead of a sum over V for every first draft x.

    After x is rejected, the second round accepts sum_t min(r(t), q(t) / (1 - q(x))) with r = N((p - q)+) and r(x) = 0.
    If tokens are sorted by q(t) / r(t), the minimum is q(t) / (1 - q(x)) before the place of 1 - q(x), and r(t) after
    it. So two running sums are enough.
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
