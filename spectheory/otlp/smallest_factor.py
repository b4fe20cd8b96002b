"""rho*, the smallest factor from which on SpecTr is lossless: the smallest root of `gap` in [1, k]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectheory.core.arrays import Vector, excess, power

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
