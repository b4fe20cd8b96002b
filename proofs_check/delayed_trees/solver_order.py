"""The order of the solvers: which of them accepts more, at a node and in trees."""

from __future__ import annotations

from fractions import Fraction
from math import comb

from proofs_check.claims import Finding, claim, every
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.solver_trees import Layers, dominated, efficiency
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

    def ordered(p: Law, q: Law, k: int) -> bool:
        low, high = (printed.profile(rule, p, q, k, k) for rule in (printed.nss, printed.naive))
        exact = all(high[t, m] - low[t, m] == lead(p[t], q[t], k, m) for t, m in low)
        return (
            exact
            and dominated(printed.nss, printed.naive, p, q, (k, k))
            and dominated(printed.naive, printed.spec_infer, p, q, (k, k))
        )

    def below_spectr(p: Law, q: Law, k: int) -> bool:
        spectr = nearly_spectr(p, q, k)
        low, high = (printed.profile(rule, p, q, k, k) for rule in (printed.nss, spectr))
        rates = [printed.acceptance(rule, p, q, k) for rule in (printed.spec_infer, spectr)]
        return rates[0] <= rates[1] + slack and all(low[event] <= high[event] + slack for event in low)

    slack = Fraction(1, 2**16)
    at_node, in_tree = ahead_at_a_node(), ahead_in_a_tree()
    one, other = printed.THIRDS
    alike = printed.acceptance(printed.naive, one, one, 2), printed.acceptance(printed.untuned(one, one), one, one, 2)
    beaten = {
        "NSS": at_node["NSS"] < at_node["NaiveTree"],
        "NaiveTree": at_node["NaiveTree"] < at_node["SpecTr"],
        "SpecInfer": at_node["SpecInfer"] < at_node["SpecTr"] < at_node["Khisti"],
        "SpecTr": in_tree["SpecTr"] < in_tree["SpecInfer"],
        "Khisti": alike[1] < alike[0],
    }
    every(beaten.values(), bool)
    count = every(printed.settings(effort), ordered)
    every(printed.settings(effort), below_spectr)
    return Finding(
        {
            "one": words(one),
            "other": words(other),
            "at_node": {name: f"{float(rate):.4f}" for name, rate in at_node.items()},
            "alike": alike,
            "in_tree": in_tree,
            "count": count,
            "over": printed.over(effort),
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
