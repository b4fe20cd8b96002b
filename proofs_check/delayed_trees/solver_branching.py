"""Branching probabilities of the node solvers (Section D)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from proofs_check.claims import Finding, claim, smallest
from proofs_check.delayed_trees import solver_formulas as formulas
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.plays import ZERO
from proofs_check.small_drafts import Law

Draws = tuple[Law, Law, printed.Tokens]


def draws(effort: int) -> Iterator[Draws]:
    """(p, q, drafts) of all settings."""
    return ((p, q, drafts) for p, q, k in printed.settings(effort) for drafts, _ in printed.drafted(q, k))


def played(rule: printed.Procedure, p: Law, q: Law, drafts: printed.Tokens) -> dict[int, Fraction]:
    """The branching probabilities of the drafted tokens, summed over every outcome of the coins."""
    return {token: printed.emission(rule, p, q, drafts)[token] for token in drafts}


@claim("D-BR")
def branching_probabilities(effort: int) -> Finding:
    def plays(p: Law, q: Law, drafts: printed.Tokens) -> Iterator[dict[str, Any]]:
        case = p, q, drafts
        for formula, rule in ((formulas.nss_branching, printed.nss), (formulas.naive_branching, printed.naive)):
            yield {"returned": formula(*case), "branching": played(rule, *case)}
        for rho in printed.factors(p, q, len(drafts)):
            yield {"returned": formulas.spectr_branching(*case, rho), "branching": played(printed.KSeq(rho), *case)}

    every_one = [*draws(effort)]
    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        cases={"play": (play for case in every_one for play in plays(*case))},
    )


@claim("D-BR14")
def spec_infer_branching(effort: int) -> Finding:
    def agrees(*case: Any, shift: int) -> bool:
        return formulas.spec_infer_branching(*case, shift=shift) == played(printed.spec_infer, *case)

    p, q, drafts = smallest(draws(effort), lambda *case: not agrees(*case, shift=0))
    every_one = [*draws(effort)]

    def values(*case: Any) -> dict[str, Any]:
        with_a, with_next = (formulas.spec_infer_branching(*case, shift=shift) for shift in (0, 1))
        return {"with_a": with_a, "with_the_next_a": with_next, "branching": played(printed.spec_infer, *case)}

    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        {
            "p": p,
            "q": q,
            "drafts": list(drafts),
            "printed": formulas.spec_infer_branching(p, q, drafts, 0),
            "branching": played(printed.spec_infer, p, q, drafts),
        },
        cases={"draft": (values(*case) for case in every_one)},
    )


def algorithm_15(
    rule: printed.Tournament, p: Law, q: Law, drafts: printed.Tokens, *, whole: bool
) -> dict[int, Fraction]:
    """Algorithm 15; `whole` reads Naive's branching at every draft, and not at the winner alone."""
    r, pi = rule.winner_law(q, len(drafts)), rule.selected(drafts, len(q))
    found = dict.fromkeys(drafts, ZERO)
    for x in found:
        if pi[x]:
            keys = (x, *found) if whole else (x,)
            for token, chance in formulas.naive_branching(p, r, keys).items():
                found[token] += pi[x] * chance
    return found


@claim("D-BR15")
def khisti_branching(effort: int) -> Finding:
    def differs(p: Law, q: Law, drafts: printed.Tokens) -> bool:
        rule = printed.untuned(p, q)
        return len(drafts) == 2 and algorithm_15(rule, p, q, drafts, whole=False) != played(rule, p, q, drafts)

    def plays(p: Law, q: Law, drafts: printed.Tokens) -> Iterator[dict[str, Any]]:
        for rule in (printed.untuned(p, q), *printed.tournaments(len(p))):
            at_winner, at_every = (algorithm_15(rule, p, q, drafts, whole=whole) for whole in (False, True))
            yield {"at_the_winner": at_winner, "at_every_draft": at_every, "branching": played(rule, p, q, drafts)}

    p, q, drafts = smallest(draws(effort), differs)
    every_one = [*draws(effort)]
    rule = printed.untuned(p, q)
    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        {
            "p": p,
            "q": q,
            "drafts": list(drafts),
            "r": rule.winner_law(q, len(drafts)),
            "winner": rule.selected(drafts, len(q)),
            "printed": algorithm_15(rule, p, q, drafts, whole=False),
            "branching": played(rule, p, q, drafts),
        },
        cases={"play": (play for case in every_one for play in plays(*case))},
    )
