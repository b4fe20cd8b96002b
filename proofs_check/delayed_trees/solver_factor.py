"""SpecTr's division factor: where its root lies, which factors are lossless, and which accepts most."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import sympy as sp

from proofs_check.delayed_trees.solver_formulas import spectr_acceptance
from proofs_check.delayed_trees.solver_printed import KSeq, Setting, factors, output, over, settings, smaller
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law
from proofs_check.verdict import Verdict, claim, every, smallest


def accepted_in_tries(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """p_acc of Eq. (7)."""
    return 1 - (1 - sum(smaller(p, q, rho), ZERO)) ** k


def gap(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """p_acc(rho) - rho beta(rho)."""
    return accepted_in_tries(p, q, k, rho) - rho * sum(smaller(p, q, rho), ZERO)


def bracket(p: Law, q: Law, k: int, halvings: int) -> tuple[Fraction, Fraction]:
    """The interval in which a binary search on [1, k] knows the root; (1, 1) where 1 is one."""
    if gap(p, q, k, ONE) <= 0:
        return ONE, ONE
    low, high = ONE, Fraction(k)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(p, q, k, middle) > 0 else (low, middle)
    return low, high


def overlap(p: Law, q: Law) -> bool:
    """Whether some token has p > 0 and q > 0."""
    return any(a and b for a, b in zip(p, q, strict=True))


def valid(effort: int) -> Iterator[tuple[Setting, Fraction]]:
    """Settings with factors from their root to k, the upper end of a bracket of it among them, and with 2 k."""
    for p, q, k in settings(effort):
        tried = {*factors(p, q, k), bracket(p, q, k, 6)[1], Fraction(2 * k)}
        yield from (((p, q, k), rho) for rho in sorted(tried) if gap(p, q, k, rho) <= 0)


def derivative_is_as_said() -> bool:
    """The derivative of the gap where a = sum of p over p <= rho q, and s = sum of q over the other tokens."""
    rho, a, s, k, b = sp.symbols("rho a s k b", positive=True)
    at_b = 1 - (1 - b) ** k - rho * b
    beta = s + a / rho
    derivative = sp.diff(at_b, b) * sp.diff(beta, rho) + sp.diff(at_b, rho)
    said = -k * (1 - b) ** (k - 1) * a / rho**2 - s
    return sp.simplify((derivative - said).subs(s, b - a / rho)) == 0


@claim("D-RHO", source="Delayed tree expansion, B.3 after Eq. (7)")
def root(effort: int) -> Verdict:
    """The map rho -> p_acc(rho) - rho beta(rho) is monotone decreasing on [1, k], and its root rho* exists.

    For all laws p, q and k >= 1; decreasing is read as strictly decreasing, which is what makes the root one number.
    """

    def falls(case: Setting) -> list[bool]:
        gaps = [gap(*case, rho) for rho in factors(*case)]
        return [after < before for before, after in pairwise(gaps)]

    def repaired(case: Setting) -> bool:
        p, q, _ = case
        gaps = [gap(*case, rho) for rho in factors(*case)]
        return gaps[0] >= 0 >= gaps[-1] and (all(falls(case)) if overlap(p, q) else not any(gaps))

    if not derivative_is_as_said():
        raise ArithmeticError("the derivative of the gap is another one")
    p, q, k = smallest(settings(effort), lambda case: not all(falls(case)))
    count = every(settings(effort), repaired)
    return Verdict(
        "corrected",
        "Between two factors where min(p / rho, q) bends, beta = s + a / rho, with a = sum of p over p <= rho q and s "
        "= sum of q over the others; the derivative -k (1 - beta)^(k-1) a / rho^2 - s has no positive term (sympy, any "
        "k). It is 0 on an interval only for a = s = 0, when p and q share no token, or for beta = 1 there, which "
        "takes rho = 1. At 1 the gap is 1 - (1 - b)^k - b >= 0, at k it is <= 0 by Bernoulli's inequality, and it is "
        f"continuous. Compared on {count:,} settings ({over(effort)}), at every bend and between.",
        "a symbolic proof, and enumeration in Fractions",
        {"p": p, "q": q, "k": k, "rho": factors(p, q, k), "gap": [gap(p, q, k, rho) for rho in factors(p, q, k)]},
        "The gap is continuous, not negative at 1, not positive at k, and non-increasing. If some token has p > 0 and "
        "q > 0 it falls strictly and has one root in [1, k]; else it is 0 throughout and every factor is a root.",
    )


@claim("D-RHO-VALID", source="Delayed tree expansion, B.3 after Eq. (7)")
def every_factor_from_the_root(effort: int) -> Verdict:
    """With any rho in [rho*, k] in place of rho*, K-SEQ (Algorithm 3) is an OTLP solver: it emits a token of law p.

    rho* is a root of the gap. Algorithm 3 computes beta, p_acc and gamma from the rho in use; gamma is 0 / 0 where
    beta = 0, and any value serves, since it multiplies 0.
    """

    def lossless(case: tuple[Setting, Fraction]) -> bool:
        (p, q, k), rho = case
        placed = KSeq(rho).placed(p, q, k)
        return all(a <= b for a, b in zip(placed, p, strict=True)) and output(KSeq(rho), p, q, k) == p

    count = every(valid(effort), lossless)
    return Verdict(
        "holds",
        "Try i is reached with probability (1 - beta)^(i-1) and accepts t with probability min(p(t) / rho, q(t)), so "
        "the tries emit gamma min(p / rho, q). The gap is beta (gamma - rho), not positive from rho* on (D-RHO), so "
        "gamma <= rho or beta = 0, and gamma min(p / rho, q) <= min(p, rho q) <= p: the residual needs no clipping, "
        "has the mass that the tries leave, and fills up p. Nothing in this stops at k. Algorithm 3 was played over "
        f"every draft and coin for {count:,} settings and factors ({over(effort)}).",
        "a derivation, and enumeration in Fractions",
    )


@claim("D-RHO-BIN", source="Delayed tree expansion, B.3 after Eq. (7), and Algorithm 3, line 1")
def binary_search(effort: int) -> Verdict:
    """Binary search can be used to compute rho*, and Algorithm 3 with what it returns is an OTLP solver.

    A binary search ends with a bracket of the root, which can be irrational; the text does not say which end to use,
    so both are read as right.
    """
    halvings = 8

    def lower_is_lossy(case: Setting) -> bool:
        low, high = bracket(*case, halvings)
        return low < high and output(KSeq(low), *case) != case[0]

    def upper_is_lossless(case: Setting) -> bool:
        return all(output(KSeq(bracket(*case, n)[1]), *case) == case[0] for n in (0, 2, halvings))

    p, q, k = smallest(settings(effort), lower_is_lossy)
    count = every(settings(effort), upper_is_lossless)
    low, _ = bracket(p, q, k, halvings)
    return Verdict(
        "corrected",
        f"After {halvings} halvings the lower end emits another law than p. The upper end is lossless by D-RHO-VALID, "
        f"and was, after 0, 2 and {halvings} halvings, in all of {count:,} settings ({over(effort)}).",
        "counterexample by search, and enumeration in Fractions",
        {"p": p, "q": q, "k": k, "halvings": halvings, "rho": low, "emitted": output(KSeq(low), p, q, k)},
        "The upper end of the bracket is lossless after any number of halvings; the lower end need not be.",
    )


@claim("D-RHO-OPT", source="Delayed tree expansion, B.3 after Eq. (7)")
def best_factor(effort: int) -> Verdict:
    """Of the factors in [rho*, k], rho* has the highest acceptance rate.

    The acceptance rate is that of Definition 5.1 and Algorithm 8, as the text refers to Section C: the probability
    that the emitted token is among the drafts.
    """

    def at_most(p: Law, q: Law, k: int) -> Fraction:
        """A bound of the acceptance at rho*, sum min(p, rho* q), from a rational above rho*."""
        above = bracket(p, q, k, 20)[1]
        return above * sum(smaller(p, q, above), ZERO)

    def candidates() -> Iterator[tuple[Setting, Fraction]]:
        for setting in settings(effort):
            yield from ((setting, rho) for rho in factors(*setting) if gap(*setting, rho) <= 0)

    def tries_fall(case: tuple[Setting, Fraction]) -> bool:
        setting, rho = case
        return accepted_in_tries(*setting, rho) <= min(at_most(*setting), spectr_acceptance(*setting, rho))

    (p, q, k), rho = smallest(candidates(), lambda case: spectr_acceptance(*case[0], case[1]) > at_most(*case[0]))
    count = every(valid(effort), tries_fall)
    return Verdict(
        "corrected",
        "At rho* the residual (p - rho* q)+ and the rejected drafts, of law (q - p / rho*)+, share no token, so the "
        "acceptance there is p_acc(rho*) = sum min(p, rho* q). A larger factor accepts less often in its tries, but "
        "its residual can be a rejected draft. The acceptance at rho* is bounded by a rational factor above it. The "
        f"statement in its place follows from beta falling with rho; compared on {count:,} settings and factors "
        f"({over(effort)}).",
        "counterexample by search, and a derivation",
        {
            "p": p,
            "q": q,
            "k": k,
            "rho": rho,
            "acceptance": spectr_acceptance(p, q, k, rho),
            "acceptance_at_root_at_most": at_most(p, q, k),
        },
        "Of the factors in [rho*, k], rho* has the highest p_acc, the probability that a try accepts. The acceptance "
        "rate is at least p_acc, equal to it at rho*, and may be higher above, so a search over [rho*, k] never loses.",
    )
