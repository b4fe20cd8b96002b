"""The order of the solvers: which of them accepts more, at a node and in trees."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import comb

from proofs_check.claims import Finding, claim, every
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.solver_trees import Layers, efficiency
from proofs_check.delayed_trees.walks import words
from proofs_check.small_drafts import Law


def nearly_spectr(p: Law, q: Law, k: int) -> printed.KSeq:
    """SpecTr with a factor at most (k - 1) / 2^20 above rho*."""
    return printed.KSeq(bracket(p, q, k, 20)[1])


@claim("D-REGIMES")
def no_winner(effort: int) -> Finding:
    def lead(p: Fraction, q: Fraction, k: int, m: int) -> Fraction:
        """How much NaiveTree's profile exceeds NSS's for a token with probabilities p and q."""
        one_more = comb(k - 1, m - 1) * q ** (m - 1) * (1 - q) ** (k - m)
        return (q * (1 - p) if p > q else p * (1 - q)) * one_more

    def ordered(p: Law, q: Law, k: int) -> Iterator[dict[str, Fraction]]:
        low, middle, high = (printed.profile(rule, p, q, k, k) for rule in printed.RULES.values())
        for t, m in low:
            told = {"NSS": low[t, m], "NaiveTree": middle[t, m], "SpecInfer": high[t, m]}
            yield {**told, "lead": lead(p[t], q[t], k, m)}

    def below_spectr(p: Law, q: Law, k: int) -> bool:
        spectr = nearly_spectr(p, q, k)
        low, high = (printed.profile(rule, p, q, k, k) for rule in (printed.nss, spectr))
        rates = [printed.acceptance(rule, p, q, k) for rule in (printed.spec_infer, spectr)]
        return rates[0] <= rates[1] + slack and all(low[event] <= high[event] + slack for event in low)

    slack = Fraction(1, 2**16)
    at_node, in_tree = ahead_at_a_node(), ahead_in_a_tree()
    one, other = printed.THIRDS
    alike = printed.acceptance(printed.naive, one, one, 2), printed.acceptance(printed.untuned(one, one), one, one, 2)
    every_one = [*printed.settings(effort)]
    every(every_one, below_spectr)
    return Finding(
        {
            "one": words(one),
            "other": words(other),
            "at_node": {name: f"{float(rate):.4f}" for name, rate in at_node.items()},
            "alike": alike,
            "in_tree": in_tree,
            "count": len(every_one),
            "over": printed.over(effort),
        },
        cases={
            "node": [at_node],
            "world_without_error": [{"NaiveTree": alike[0], "Khisti": alike[1]}],
            "tree": [in_tree],
            "event": (event for case in every_one for event in ordered(*case)),
        },
    )


def ahead_at_a_node() -> dict[str, Fraction]:
    """Acceptance rates of two drafts where SpecTr accepts more than SpecInfer and Khisti more than both."""
    p, q = printed.THIRDS
    rules = printed.RULES | {"SpecTr": nearly_spectr(p, q, 2), "Khisti": printed.untuned(p, q)}
    return {name: printed.acceptance(rule, p, q, 2) for name, rule in rules.items()}


def ahead_in_a_tree() -> dict[str, Fraction]:
    """Mean tokens of a cycle in a world where SpecTr, with rho* = 3/2 at both levels, emits fewer than NaiveTree."""
    if any(bracket(p, q, 2, 20)[1] != Fraction(3, 2) for p, q in printed.TWO_LEVELS):
        raise ArithmeticError("rho* is not 3/2 at both levels")
    rules = printed.RULES | {"SpecTr": printed.KSeq(Fraction(3, 2))}
    return {name: efficiency(rule, Layers(printed.TWO_LEVELS), (2, 0, 2)) for name, rule in rules.items()}
