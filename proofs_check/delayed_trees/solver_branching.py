"""Branching probabilities of the node solvers (Section D)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from proofs_check.delayed_trees import solver_formulas as printed
from proofs_check.delayed_trees.solver_printed import (
    Khisti,
    KSeq,
    Procedure,
    Tokens,
    drafted,
    factors,
    law,
    naive,
    nss,
    over,
    settings,
    spec_infer,
    tournaments,
    untuned,
)
from proofs_check.plays import ZERO
from proofs_check.small_drafts import Law
from proofs_check.verdict import Verdict, claim, every, smallest

Draws = tuple[Law, Law, Tokens]


def draws(effort: int) -> Iterator[Draws]:
    """(p, q, drafts) of all settings."""
    return ((p, q, drafts) for p, q, k in settings(effort) for drafts, _ in drafted(q, k))


def played(rule: Procedure, p: Law, q: Law, drafts: Tokens) -> dict[int, Fraction]:
    """The branching probabilities of the drafted tokens, by playing every coin."""
    return {token: law(rule, p, q, drafts)[token] for token in drafts}


@claim("D-BR", source="Delayed tree expansion, Section D, Algorithms 11 to 13")
def branching_probabilities(effort: int) -> Verdict:
    """Algorithms 11, 12 and 13 return the branching probabilities (Definition 5.3) of NSS, Naive and SpecTr for every
    drafted token, for all p, q and drafts with q > 0.

    Where a printed step divides 0 by 0 (p_res of Algorithm 12 and 13 for p = q; gamma for p and q without a common
    token) the result multiplies 0, and 0 is put for it. Algorithm 13 is checked for every factor in use.
    """

    def right(case: Draws) -> bool:
        p, q, drafts = case
        return (
            printed.nss_branching(*case) == played(nss, *case)
            and printed.naive_branching(*case) == played(naive, *case)
            and all(
                printed.spectr_branching(*case, rho) == played(KSeq(rho), *case) for rho in factors(p, q, len(drafts))
            )
        )

    count = every(draws(effort), right)
    return Verdict(
        "holds",
        "Each adds the probabilities that a try accepts the token and that the residual, drawn after the last "
        "rejection, is it. Compared with Algorithms 1 to 3, played over every coin, for "
        f"{count:,} drafts ({over(effort)}), Algorithm 13 at every bend of beta and between. Code needs a guard for "
        "0 / 0 where p = q.",
        "a derivation, and enumeration in Fractions",
    )


@claim("D-BR14", source="Delayed tree expansion, Section D, Algorithm 14")
def spec_infer_branching(effort: int) -> Verdict:
    """Algorithm 14 returns the branching probabilities of SpecInfer (Algorithm 4).

    Its line 12 reads a_i for i = 0, which line 4 never sets. a_0 is read as a_1 = min(1, p_0 / q): any other value of
    a_0(x), where it matters, makes it wrong for the single draft x, where line 12 reads nothing else.
    """

    def differs(case: Draws) -> bool:
        return printed.spec_infer_branching(*case, shift=0) != played(spec_infer, *case)

    p, q, drafts = smallest(draws(effort), differs)
    count = every(draws(effort), lambda case: printed.spec_infer_branching(*case, 1) == played(spec_infer, *case))
    return Verdict(
        "corrected",
        "B_i(S) has k - |S| = i rejections behind it, so the next round tests p_i against q, and line 4 calls that "
        f"ratio a_(i+1). With it the algorithm agreed with Algorithm 4, played over every coin, for {count:,} drafts "
        f"({over(effort)}); the recursion is then the law of total probability over the next draft and its coin.",
        "counterexample by search; a derivation, and enumeration in Fractions",
        {
            "p": p,
            "q": q,
            "drafts": list(drafts),
            "printed": printed.spec_infer_branching(p, q, drafts, 0),
            "branching": played(spec_infer, p, q, drafts),
        },
        "Line 12 needs a_{i+1}: B_i(S; x) = |S|^-1 sum_{t in S} (a_{i+1}(t) 1{t = x} + (1 - a_{i+1}(t)) "
        "B_{i+1}(S - {t}; x)), with 0 for 0 / 0 in p_i once p_{i-1} = q.",
    )


def algorithm_15(rule: Khisti, p: Law, q: Law, drafts: Tokens, *, whole: bool) -> dict[int, Fraction]:
    """Algorithm 15; `whole` reads Naive's branching at every draft, and not at the winner alone."""
    r, pi = rule.winner_law(q, len(drafts)), rule.selected(drafts, len(q))
    found = dict.fromkeys(drafts, ZERO)
    for x in found:
        if pi[x]:
            keys = (x, *found) if whole else (x,)
            for token, chance in printed.naive_branching(p, r, keys).items():
                found[token] += pi[x] * chance
    return found


@claim("D-BR15", source="Delayed tree expansion, Section D, Algorithm 15")
def khisti_branching(effort: int) -> Verdict:
    """Algorithm 15 returns the branching probabilities of Khisti (Algorithm 5).

    Read literally: NAIVE_BRANCHING(p, r, [x]) is Algorithm 12, whose result has the one key x. r and the probabilities
    of the tournament are those in use; the counterexample is of a tournament with truncation 1, where all are fixed.
    """

    def differs(case: Draws) -> bool:
        rule = untuned(*case[:2])
        return len(case[2]) == 2 and algorithm_15(rule, *case, whole=False) != played(rule, *case)

    def repaired(case: Draws) -> bool:
        return all(algorithm_15(t, *case, whole=True) == played(t, *case) for t in tournaments(len(case[0])))

    p, q, drafts = smallest(draws(effort), differs)
    count = every(draws(effort), repaired)
    rule = untuned(p, q)
    return Verdict(
        "corrected",
        "The winner can be rejected and the residual be another draft, which the key x leaves out. The repaired sum is "
        "the law of total probability over the winner; it agreed with Algorithm 5, played over every coin, for "
        f"{count:,} drafts ({over(effort)}), with every order of the tokens and with fair coins.",
        "counterexample by search; a derivation, and enumeration in Fractions",
        {
            "p": p,
            "q": q,
            "drafts": list(drafts),
            "r": rule.winner_law(q, len(drafts)),
            "winner": rule.selected(drafts, len(q)),
            "printed": algorithm_15(rule, p, q, drafts, whole=False),
            "branching": played(rule, p, q, drafts),
        },
        "For every draft t: B(t) = sum_x pi_x (a_x 1{t = x} + (1 - a_x) res(t)), with a_x = min(1, p(x) / r(x)) and "
        "res proportional to (p - r)+.",
    )
