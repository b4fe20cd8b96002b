"""SpecTr's division factor: where its root is, which factors are lossless, and which factor accepts most."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import sympy as sp

from proofs_check.claims import Finding, claim, smallest
from proofs_check.delayed_trees.solver_printed import KSeq, Setting, factors, output, over, settings, smaller
from proofs_check.plain import spelled
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law


def accepted_once(p: Law, q: Law, rho: Fraction) -> Fraction:
    """beta(rho), the probability that one draft is accepted."""
    return sum(smaller(p, q, rho), ZERO)


def accepted_in_tries(beta: Fraction, k: int) -> Fraction:
    """p_acc of Eq. (7), from beta(rho)."""
    return 1 - (1 - beta) ** k


def gap(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """p_acc(rho) - rho beta(rho)."""
    beta = accepted_once(p, q, rho)
    return accepted_in_tries(beta, k) - rho * beta


@cache
def bracket(p: Law, q: Law, k: int, halvings: int) -> tuple[Fraction, Fraction]:
    """The interval around the root that a binary search on [1, k] finds; (1, 1) where 1 is a root."""
    if gap(p, q, k, ONE) <= 0:
        return ONE, ONE
    low, high = ONE, Fraction(k)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(p, q, k, middle) > 0 else (low, middle)
    return low, high


def tried(effort: int) -> list[tuple[Setting, Fraction]]:
    """(setting, factor) for several factors from 1 to k, on both sides of the root, and for the factor 2 k."""
    return [
        ((p, q, k), rho)
        for p, q, k in settings(effort)
        for rho in sorted({*factors(p, q, k), bracket(p, q, k, 6)[1], Fraction(2 * k)})
    ]


def valid(effort: int) -> int:
    """How many of `tried` are at the root or above it."""
    return sum(gap(*setting, rho) <= 0 for setting, rho in tried(effort))


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
    def gaps(p: Law, q: Law, k: int) -> list[Fraction]:
        return [gap(p, q, k, rho) for rho in factors(p, q, k)]

    def values(p: Law, q: Law, k: int) -> dict[str, Any]:
        found = gaps(p, q, k)
        shared = sum(a > 0 < b for a, b in zip(p, q, strict=True))
        return {"gaps": found, "gap_at_1": found[0], "gap_at_k": found[-1], "shared": shared}

    if not derivative_is_as_said():
        raise ArithmeticError("the derivative of the gap differs from the claim's")
    every_one = [*settings(effort)]
    p, q, k = smallest(every_one, lambda *case: any(b >= a for a, b in pairwise(gaps(*case))))
    return Finding(
        {"count": len(every_one), "over": over(effort)},
        {"p": p, "q": q, "k": k, "rho": factors(p, q, k), "gap": gaps(p, q, k)},
        cases={"setting": (values(*setting) for setting in every_one)},
    )


@claim("D-RHO-VALID")
def every_factor_from_the_root(effort: int) -> Finding:
    def values(setting: Setting, rho: Fraction) -> dict[str, Any]:
        p, q, k = setting
        over_p = max(a - b for a, b in zip(KSeq(rho).placed(p, q, k), p, strict=True))
        return {"gap": gap(*setting, rho), "p": p, "emitted": output(KSeq(rho), p, q, k), "placed_over_p": over_p}

    return Finding(
        {"count": valid(effort), "over": over(effort)}, cases={"factor": (values(*one) for one in tried(effort))}
    )


@claim("D-RHO-BIN")
def binary_search(effort: int) -> Finding:
    halvings = 8

    def lower_is_lossy(p: Law, q: Law, k: int) -> bool:
        low, high = bracket(p, q, k, halvings)
        return low < high and output(KSeq(low), p, q, k) != p

    def values(p: Law, q: Law, k: int, halvings: int) -> dict[str, Any]:
        lower, upper = (output(KSeq(rho), p, q, k) for rho in bracket(p, q, k, halvings))
        return {"p": p, "emitted_with_lower_end": lower, "emitted_with_upper_end": upper}

    every_one = [*settings(effort)]
    p, q, k = smallest(every_one, lower_is_lossy)
    low, _ = bracket(p, q, k, halvings)
    return Finding(
        {"halvings": halvings, "count": len(every_one), "over": over(effort)}
        | {"pair": spelled((p, q)), "off": abs(output(KSeq(low), p, q, k)[0] - p[0])},
        {"p": p, "q": q, "k": k, "halvings": halvings, "rho": low, "emitted": output(KSeq(low), p, q, k)},
        cases={"bracket": (values(*one, n) for n in (0, 2, halvings) for one in every_one)},
    )
