"""The optimal node solver: what it accepts, and what that is worth in a tree."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import prod
from typing import Any

import spectheory as st
from proofs_check.claims import Case, Finding, claim, second
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.delayed_trees.library import array, layered, tokens_per_call
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law
from spectheory.otlp import OptimalTransport, SpecInfer, SpecTr

Coupling = dict[printed.Tokens, Law]
"""The distribution of the emitted token for each draw of the drafts."""
HALF = Fraction(1, 2)
EXAMPLE: printed.Setting = (HALF, HALF), (Fraction(2, 3), Fraction(1, 3)), 2
STORED: Coupling = {
    (0, 0): (ONE, ZERO),
    (0, 1): (Fraction(1, 8), Fraction(7, 8)),
    (1, 0): (Fraction(1, 8), Fraction(7, 8)),
    (1, 1): (ZERO, ONE),
}
"""An optimal solver for the example."""


def cut(p: Law, q: Law, k: int, tokens: printed.Tokens) -> Fraction:
    """No OTLP solver accepts more than p(H) + 1 - q(H)^k, H being `tokens`."""
    return sum((p[t] for t in tokens), ZERO) + 1 - sum((q[t] for t in tokens), ZERO) ** k


def prefixes(p: Law, q: Law) -> list[printed.Tokens]:
    """The first 0, 1, ..., V tokens by falling q / p."""
    order = sorted(range(len(p)), key=lambda t: -q[t] / (p[t] + q[t]) if p[t] + q[t] else ONE)
    return [tuple(order[:size]) for size in range(len(p) + 1)]


def coupling(p: Law, q: Law, k: int) -> Coupling:
    """A candidate for the optimal solver, from spectheory's maximum flow; nothing of it is believed unchecked."""
    return {x: printed.emission(OptimalTransport(), p, q, x) for x, _ in printed.drafted(q, k)}


def attained(p: Law, q: Law, k: int, found: Coupling) -> Fraction | None:
    """The acceptance of a coupling; None where it is no coupling or does not emit with distribution p."""
    weighed = [(drafts, chance, found[drafts]) for drafts, chance in printed.drafted(q, k)]
    emitted = tuple(sum((chance * law[t] for _, chance, law in weighed), ZERO) for t in range(len(p)))
    if emitted != p or any(min(law) < 0 or sum(law) != 1 for _, _, law in weighed):
        return None
    return sum((chance * sum(law[t] for t in set(drafts)) for drafts, chance, law in weighed), ZERO)


@claim("D-OT-OPT")
def optimal_rate(effort: int) -> Finding:
    def least(p: Law, q: Law, k: int) -> Fraction:
        return min(cut(p, q, k, tokens) for tokens in prefixes(p, q))

    def values(p: Law, q: Law, k: int) -> dict[str, Any]:
        return {"attained": attained(p, q, k, coupling(p, q, k)), "least_bound": least(p, q, k)}

    p, q, k = EXAMPLE
    rates = [least(p, q, k), *(printed.acceptance(rule, p, q, k) for rule in reversed(printed.RULES.values()))]
    if rates[0] != attained(p, q, k, STORED) or rates[0] <= max(rates[1:]):
        raise ArithmeticError("the example shows no gap between the optimum and the rules")
    every_one = [*printed.settings(effort)]
    return Finding(
        {"rates": rates, "count": len(every_one), "over": printed.over(effort)},
        cases={"setting": (values(*case) for case in every_one)},
    )


@second("D-OT-OPT")
def every_set_of_tokens(case: Case) -> dict[str, Any]:
    """Second check: the stored coupling reaches the least of the dual bounds, one for each set. On a tree of two
    levels the optimum at each node does not give the most tokens.
    """
    p, q, k = EXAMPLE
    sets = [tokens for size in range(len(p) + 1) for tokens in combinations(range(len(p)), size)]
    inside = [sum((c for x, c in printed.drafted(q, k) if set(x) <= set(h)), ZERO) for h in sets]
    bounds = [sum((p[t] for t in h), ZERO) + 1 - chance for h, chance in zip(sets, inside, strict=True)]
    emitted, kept = [ZERO] * len(p), ZERO
    for x in product(range(len(q)), repeat=k):
        chance = prod((q[token] for token in x), start=ONE)
        assert min(STORED[x]) >= 0
        assert sum(STORED[x]) == 1
        for token, share in enumerate(STORED[x]):
            emitted[token] += chance * share
            kept += chance * share * (token in x)
    assert tuple(emitted) == p
    assert kept == min(bounds) == st.optimal_acceptance(array(p), array(q), k)
    world = layered(printed.TWO_LEVELS)
    values = [tokens_per_call(solver, world, 2, 0, 2) for solver in (OptimalTransport(), SpecTr(), SpecInfer())]
    assert values == sorted(set(values))
    return {"values": values}
