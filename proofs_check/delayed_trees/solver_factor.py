"""SpecTr's division factor: where its root is, which factors are lossless, and which factor accepts most."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import sympy as sp

from proofs_check.claims import Finding, claim, every, smallest
from proofs_check.delayed_trees.solver_formulas import spectr_acceptance
from proofs_check.delayed_trees.solver_printed import KSeq, Setting, counted, factors, output, over, settings, smaller
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law


def accepted_in_tries(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """p_acc of Eq. (7)."""
    return 1 - (1 - sum(smaller(p, q, rho), ZERO)) ** k


def gap(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """p_acc(rho) - rho beta(rho)."""
    return accepted_in_tries(p, q, k, rho) - rho * sum(smaller(p, q, rho), ZERO)


def bracket(p: Law, q: Law, k: int, halvings: int) -> tuple[Fraction, Fraction]:
    """The interval around the root that a binary search on [1, k] finds; (1, 1) where 1 is a root."""
    if gap(p, q, k, ONE) <= 0:
        return ONE, ONE
    low, high = ONE, Fraction(k)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(p, q, k, middle) > 0 else (low, middle)
    return low, high


def valid(effort: int) -> Iterator[tuple[Setting, Fraction]]:
    """(setting, factor) for several factors from the setting's root to k, and for the factor 2 k."""
    for p, q, k in settings(effort):
        tried = {*factors(p, q, k), bracket(p, q, k, 6)[1], Fraction(2 * k)}
        yield from (((p, q, k), rho) for rho in sorted(tried) if gap(p, q, k, rho) <= 0)


def derivative_is_as_said() -> bool:
    """Whether the gap has the derivative that the claim states.

    a is the sum of p over the tokens with p <= rho q, and s the sum of q over the other tokens.
    """
    rho, a, s, k, b = sp.symbols("rho a s k b", positive=True)
    at_b = 1 - (1 - b) ** k - rho * b
    beta = s + a / rho
    derivative = sp.diff(at_b, b) * sp.diff(beta, rho) + sp.diff(at_b, rho)
    said = -k * (1 - b) ** (k - 1) * a / rho**2 - s
    return sp.simplify((derivative - said).subs(s, b - a / rho)) == 0


@claim("D-RHO")
def root(effort: int) -> Finding:
    def falls(p: Law, q: Law, k: int) -> list[bool]:
        gaps = [gap(p, q, k, rho) for rho in factors(p, q, k)]
        return [after < before for before, after in pairwise(gaps)]

    def repaired(p: Law, q: Law, k: int) -> bool:
        gaps = [gap(p, q, k, rho) for rho in factors(p, q, k)]
        overlap = any(a and b for a, b in zip(p, q, strict=True))
        return gaps[0] >= 0 >= gaps[-1] and (all(falls(p, q, k)) if overlap else not any(gaps))

    if not derivative_is_as_said():
        raise ArithmeticError("the derivative of the gap differs from the claim's")
    p, q, k = smallest(settings(effort), lambda *case: not all(falls(*case)))
    return Finding(
        counted(effort, repaired),
        {"p": p, "q": q, "k": k, "rho": factors(p, q, k), "gap": [gap(p, q, k, rho) for rho in factors(p, q, k)]},
        kept=1,
    )


@claim("D-RHO-VALID")
def every_factor_from_the_root(effort: int) -> Finding:
    def lossless(setting: Setting, rho: Fraction) -> bool:
        p, q, k = setting
        placed = KSeq(rho).placed(p, q, k)
        return all(a <= b for a, b in zip(placed, p, strict=True)) and output(KSeq(rho), p, q, k) == p

    count = every(valid(effort), lossless)
    return Finding({"count": count, "over": over(effort)})


@claim("D-RHO-BIN")
def binary_search(effort: int) -> Finding:
    halvings = 8

    def lower_is_lossy(p: Law, q: Law, k: int) -> bool:
        low, high = bracket(p, q, k, halvings)
        return low < high and output(KSeq(low), p, q, k) != p

    def upper_is_lossless(p: Law, q: Law, k: int) -> bool:
        return all(output(KSeq(bracket(p, q, k, n)[1]), p, q, k) == p for n in (0, 2, halvings))

    p, q, k = smallest(settings(effort), lower_is_lossy)
    low, _ = bracket(p, q, k, halvings)
    return Finding(
        {"halvings": halvings} | counted(effort, upper_is_lossless),
        {"p": p, "q": q, "k": k, "halvings": halvings, "rho": low, "emitted": output(KSeq(low), p, q, k)},
        kept=1,
    )


@claim("D-RHO-OPT")
def best_factor(effort: int) -> Finding:
    def at_most(p: Law, q: Law, k: int) -> Fraction:
        """A bound of the acceptance at rho*, sum min(p, rho* q), from a rational above rho*."""
        above = bracket(p, q, k, 20)[1]
        return above * sum(smaller(p, q, above), ZERO)

    candidates = ((one, rho) for one in settings(effort) for rho in factors(*one) if gap(*one, rho) <= 0)

    def tries_fall(setting: Setting, rho: Fraction) -> bool:
        return accepted_in_tries(*setting, rho) <= min(at_most(*setting), spectr_acceptance(*setting, rho))

    (p, q, k), rho = smallest(candidates, lambda one, rho: spectr_acceptance(*one, rho=rho) > at_most(*one))
    count = every(valid(effort), tries_fall)
    return Finding(
        {"count": count, "over": over(effort)},
        {
            "p": p,
            "q": q,
            "k": k,
            "rho": rho,
            "acceptance": spectr_acceptance(p, q, k, rho),
            "acceptance_at_root_at_most": at_most(p, q, k),
        },
        kept=1,
    )
