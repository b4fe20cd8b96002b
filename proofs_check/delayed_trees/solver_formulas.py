"""Algorithms 6 to 9 and 11 to 14 as the paper prints them: acceptance rates and branching probabilities.

`rho` is used where the paper has the root: the formulas hold for every factor of Algorithm 3, lossless or not.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import prod

from proofs_check.delayed_trees.solver_printed import KSeq, Tokens, smaller
from proofs_check.delayed_trees.walks import excess, normalised
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law


def nss_acceptance(p: Law, q: Law, k: int) -> Fraction:
    """Algorithm 6."""
    return sum((a * (1 - (1 - b) ** k) for a, b in zip(p, q, strict=True)), ZERO)


def naive_acceptance(p: Law, q: Law, k: int) -> Fraction:
    """Algorithm 7."""
    hit = sum((left * (1 - (1 - b) ** (k - 1)) for left, b in zip(excess(p, q), q, strict=True)), ZERO)
    return sum(smaller(p, q), ZERO) + hit


def spectr_acceptance(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """Algorithm 8."""
    beta = sum(smaller(p, q, rho), ZERO)
    p_acc = 1 - (1 - beta) ** k
    p_res = normalised(excess(p, KSeq(rho).placed(p, q, k)))
    r = [over / (1 - beta) if beta < 1 else ZERO for over in excess(q, smaller(p, q, rho))]
    return p_acc + (1 - p_acc) * sum((a * (1 - (1 - b) ** k) for a, b in zip(p_res, r, strict=True)), ZERO)


def spec_infer_acceptance(p: Law, q: Law, k: int) -> tuple[Fraction, Fraction]:
    """Algorithm 9: the acceptance, and its last term alone."""
    p_rej, m = ONE, [ONE] * len(p)
    for _ in range(k):
        r = sum(smaller(p, q), ZERO)
        p_rej *= 1 - r
        m = [kept * (1 - (over / (1 - r) if r < 1 else ZERO)) for kept, over in zip(m, excess(q, p), strict=True)]
        p = normalised(excess(p, q))
    last = p_rej * sum((a * (1 - kept) for a, kept in zip(p, m, strict=True)), ZERO)
    return 1 - p_rej + last, last


def nss_branching(p: Law, q: Law, drafts: Tokens) -> dict[int, Fraction]:
    """Algorithm 11."""
    return {token: p[token] for token in drafts}


def naive_branching(p: Law, q: Law, drafts: Tokens) -> dict[int, Fraction]:
    """Algorithm 12."""
    first = drafts[0]
    a = min(ONE, p[first] / q[first])
    p_res = normalised(excess(p, q))
    return {token: (1 - a) * p_res[token] + a * (token == first) for token in drafts}


def spectr_branching(p: Law, q: Law, drafts: Tokens, rho: Fraction) -> dict[int, Fraction]:
    """Algorithm 13."""
    p_res = normalised(excess(p, KSeq(rho).placed(p, q, len(drafts))))
    a = [min(ONE, p[token] / (rho * q[token])) for token in drafts]
    before = [prod((1 - chance for chance in a[:j]), start=ONE) for j in range(len(a) + 1)]
    hit = {t: sum((a[j] * before[j] for j, drawn in enumerate(drafts) if drawn == t), ZERO) for t in drafts}
    return {token: hit[token] + p_res[token] * before[-1] for token in drafts}


def spec_infer_branching(p: Law, q: Law, drafts: Tokens, shift: int) -> dict[int, Fraction]:
    """Algorithm 14, with a_{i + shift} in its line 12, and a_1 where it reads a_0, which it never sets.

    Printed is shift 0. Another value of a_0 would be wrong for one draft already, where line 12 reads no other.
    """
    laws, ratios = [p], []
    for _ in drafts:
        ratios.append({t: min(ONE, laws[-1][t] / q[t]) for t in drafts})
        laws.append(normalised(excess(laws[-1], q)))
    ratios = [ratios[0], *ratios]

    @cache
    def branching(left: Tokens, x: int) -> Fraction:
        i = len(drafts) - len(left)
        if not left:
            return laws[i][x]
        found = ZERO
        for at, t in enumerate(left):
            a = ratios[i + shift][t]
            found += a * (t == x) + (1 - a) * branching(left[:at] + left[at + 1 :], x)
        return found / len(left)

    return {token: branching(tuple(sorted(drafts)), token) for token in drafts}
