"""`SpecTr`, the rule K-SEQ of SpecTr: every draft is tried against p / (rho q) with the same factor rho."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from spectheory.core.arrays import RandomSource, Vector, accept_ratio, excess, normalised, positive_part, power
from spectheory.core.chance import draw
from spectheory.core.checks import check_whole
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.otlp.solver import Solver, distribution_of_tries

ROUNDING = 1e-6
"""Maximum gap A - rho b of a given rho for floating-point distributions; for Fractions it is 0."""


@dataclass(frozen=True)
class SpecTr(Solver):
    """Try the drafts in order: accept draft x with probability min(1, p(x) / (rho q(x))).

    If all are rejected, emit a token of the residual N((p - gamma min(p / rho, q))+), with b = sum min(p / rho, q),
    A = 1 - (1 - b)^k and gamma = A / b.

    Accepted drafts have the mass gamma min(p / rho, q). The rule is lossless for independent drafts if this mass is at
    most p, which holds if gamma <= rho or b = 0, that is if the gap A - rho b is at most 0. The gap is positive below
    its smallest root rho* in [1, k], and never positive above it. Below rho*, a factor is lossless only if p > rho q
    wherever p > 0. An example is rho = 1 for p = (1, 0), q = (1/10, 9/10), k = 2, where rho* = 1.9. Such factors are
    refused too. B.3 of Dynamic Delayed Tree Expansion calls rho* optimal. It is optimal for A, but not for the
    acceptance, which also counts residual tokens that equal a draft: for p = (1/3, 2/3), q = (2/3, 1/3) and k = 2 the
    acceptance is 0.811 at rho* and 5/6 at rho = 2.

    Acceptance: A + (1 - A) sum_t r(t) (1 - (1 - w(t))^k), where r is the residual and w = (q - p / rho)+ / (1 - b) is
        the distribution of a rejected draft. At rho* the second term is 0, because r and w have disjoint supports.
    Cost: O(V) for the distribution and the acceptance; rho* takes 2 sums over V and 30 sums over fewer tokens.
    Source: arXiv 2310.15141, Algorithm 2 and Theorem 1; Dynamic Delayed Tree Expansion, Algorithms 3, 8 and 13.

    Attributes:
        rho: the factor; None means rho*, or the best of `candidates`. A rho below rho* is refused where it is used.
        candidates: number of factors to try, evenly spaced from rho* to k, both included. The factor of highest
            acceptance is used. All are lossless, and rho* is one of them, so the acceptance is at least as high as
            with one candidate.

    Raises:
        InputError: rho is below 1 or above 1e9, `candidates` is below 1, or both are given.
    """

    rules: ClassVar[tuple[DrawRule, ...]] = (DrawRule.IID, DrawRule.IID_APART)
    rho: Any = None
    candidates: int = 1

    def __post_init__(self) -> None:
        if self.rho is not None and not (isinstance(self.rho, int | float | Fraction) and 1 <= self.rho <= 1e9):
            raise InputError(f"rho must be a number from 1 to 1e9, got {self.rho!r:.60}")
        check_whole("candidates", self.candidates, 1)
        if self.rho is not None and self.candidates > 1:
            raise InputError(f"give rho or candidates, not both, got rho={self.rho} and candidates={self.candidates}")

    def variants(self) -> tuple[Solver, ...]:
        return (SpecTr(candidates=9),)

    def factor(self, p: Vector, q: Vector, k: int) -> Any:
        """The rho that is used for k drafts.

        rho* is known up to an interval of width (k - 1) / 2^32. Its upper end is used, which is lossless. The interval
        is found by halving [1, k], so for Fractions its ends have denominators up to 2^32.

        Raises:
            InputError: the given rho is below rho*.
        """
        return _exact_factor(self, tuple(p), tuple(q), k) if p.dtype == object else self._factor(p, q, k)

    def _factor(self, p: Vector, q: Vector, k: int) -> Any:
        if self.rho is not None:
            exact = p.dtype == object
            rho = Fraction(self.rho) if exact else float(self.rho)
            if rho < k and gap(excess(p, q, rho).sum() / p.sum(), rho, k) > (0 if exact else ROUNDING):
                needed = smallest_factor(p, q, k)
                raise InputError(
                    f"rho must be at least rho* = {float(needed):.9g} for these p, q and k = {k} drafts, got "
                    f"{self.rho}: smaller factors may be lossy; use a larger rho, or leave it out"
                )
            return rho
        lowest = best = smallest_factor(p, q, k)
        highest = _acceptance(p, q, k, lowest) if self.candidates > 1 else None
        for i in range(1, self.candidates):
            rho = lowest + (k - lowest) * i / (self.candidates - 1)
            acceptance = _acceptance(p, q, k, rho)
            better, worse = acceptance > highest, acceptance <= highest
            best, highest = rho * better + best * worse, acceptance * better + highest * worse
        return best

    def _distribution(self, p: Vector, q: Vector, drafts: Sequence[int]) -> Vector:
        rho = self.factor(p, q, len(drafts))
        _, left, _ = _left(p, q, len(drafts), rho)
        tries = ((token, accept_ratio(p[token], q[token] * rho)) for token in drafts)
        return distribution_of_tries(tries, normalised(positive_part(left), otherwise=p))

    def _sample(self, p: Vector, q: Vector, drafts: Sequence[int], rng: RandomSource) -> int:
        """Computes rho* only if a draft is accepted by some factors from 1 to k but not by all."""
        k = len(drafts)
        rho = None if self.rho is None else self.factor(p, q, k)
        for token in drafts:
            barrier = rng.random() * q[token]
            least, most = (1, k) if rho is None else (rho, rho)
            if barrier * least < p[token] <= barrier * most:
                least = rho = self.factor(p, q, k)
            if barrier * least < p[token]:
                return token
        _, left, _ = _left(p, q, k, self.factor(p, q, k) if rho is None else rho)
        return draw(positive_part(left), rng, otherwise=p)

    def _acceptance(self, p: Vector, q: Vector, k: int) -> Any:
        return _acceptance(p, q, k, self.factor(p, q, k))


@lru_cache(maxsize=1_000)
def _exact_factor(solver: SpecTr, p: tuple[Fraction, ...], q: tuple[Fraction, ...], k: int) -> Fraction:
    """`SpecTr.factor` of fractions: it takes long, and is the same for all drafts of a node."""
    return solver._factor(np.array(p, dtype=object), np.array(q, dtype=object), k)


def _left(p: Vector, q: Vector, k: int, rho: Any) -> tuple[Vector, Vector, Any]:
    """min(p, rho q); the unused part of p, p - gamma min(p / rho, q); and 1 - b, the probability to reject a draft.

    gamma is computed as the sum of (1 - b)^i over i < k, which is defined for b = 0 too.
    """
    placed = (q * rho).clip(max=p)
    rejected = 1 - placed.sum() / rho
    gamma = 1
    for _ in range(k - 1):
        gamma = gamma * rejected + 1
    left = placed * (-gamma / rho)
    left += p
    return placed, left, rejected


def _acceptance(p: Vector, q: Vector, k: int, rho: Any) -> Any:
    """A + (1 - A) sum r (1 - (1 - w)^k) = 1 - sum left (1 - w)^k; w = 0 if nothing is rejected, as for p = q."""
    missed, left, rejected = _left(p, q, k, rho)
    missed *= 1 / rho
    missed -= q
    missed *= 1 / (rejected + (rejected == 0))
    missed += 1
    return 1 - left @ power(missed, k)


HALVINGS = (2, 6, 24)
"""Numbers of halvings of the interval [1, k] that contains rho*, to a final width of (k - 1) / 2^32. After each group,
tokens for which the sign of p - rho q is the same in the whole interval leave the sums."""


def gap(above: Any, rho: Any, k: int) -> Any:
    """A - rho b (symbols as in `SpecTr`), from above = sum (p - rho q)+; exactly 0 for p = q and rho = 1."""
    return above - power((above + rho - 1) / rho, k)


@dataclass(frozen=True, eq=False)
class _Open:
    """The tokens for which p - rho q changes its sign in an interval of rho, and the sums over all tokens above 0."""

    p: Vector
    q: Vector
    sure_p: Any
    sure_q: Any

    def above(self, rho: Any) -> Any:
        """The sum of (p - rho q)+ over all tokens, for rho in the interval."""
        return self.sure_p - self.sure_q * rho + excess(self.p, self.q, rho).sum()

    def within(self, low: Any, high: Any) -> _Open:
        """The same for the narrower interval from `low` to `high`. On a device it waits twice, for numbers of tokens.

        Tokens are selected by index, because selection by a mask takes many times as long.
        """
        kept = (self.p > self.q * low).nonzero()
        p, q = self.p[kept].reshape(-1), self.q[kept].reshape(-1)  # nonzero of a tensor is a column
        bound = q * high
        sure, kept = p >= bound, (p < bound).nonzero()
        sure_p, sure_q = self.sure_p + (p * sure).sum(), self.sure_q + (q * sure).sum()
        return _Open(p[kept].reshape(-1), q[kept].reshape(-1), sure_p, sure_q)


def smallest_factor(p: Vector, q: Vector, k: int) -> Any:
    """The upper end of a narrow interval that contains rho*, found by halving [1, k] without reading from a device."""
    total = p.sum()
    low, high = total / total, total / total * k
    tokens = _Open(p, q, 0, 0)
    for halvings in HALVINGS:
        for _ in range(halvings):
            middle = (low + high) / 2
            value = gap(tokens.above(middle) / total, middle, k)
            lossy, valid = value > 0, value <= 0
            low, high = middle * lossy + low * valid, middle * valid + high * lossy
        tokens = tokens.within(low, high)
    start = gap(tokens.above(low) / total, low, k)  # positive, unless rho* = low = 1
    return high * (start > 0) + low * (start <= 0)
