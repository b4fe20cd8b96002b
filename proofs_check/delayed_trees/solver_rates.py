"""What the node solvers emit, their acceptance rates (Section C) and branching probabilities (Section D)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import comb, prod
from typing import Any

from proofs_check.claims import Finding, claim, smallest
from proofs_check.delayed_trees import solver_printed as printed
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.walks import excess, normalised
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law


@claim("D-OTLP")
def otlp_solvers(effort: int) -> Finding:
    def plays(p: Law, q: Law, k: int) -> Iterator[dict[str, Law]]:
        rules = [*printed.RULES.values(), printed.KSeq(bracket(p, q, k, 4)[1]), *printed.tournaments(len(p))]
        yield from ({"p": p, "emitted": printed.output(rule, p, q, k)} for rule in rules)

    every_one = [*printed.settings(effort)]
    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        cases={"play": (play for setting in every_one for play in plays(*setting))},
    )


def hit(rest: Law, q: Law, k: int) -> Fraction:
    """The probability that a token of `rest` is among k independent drafts of q."""
    return sum((a * (1 - (1 - b) ** k) for a, b in zip(rest, q, strict=True)), ZERO)


def spectr_acceptance(p: Law, q: Law, k: int, rho: Fraction) -> Fraction:
    """Algorithm 8, with `rho` in place of the root."""
    once = printed.smaller(p, q, rho)
    p_acc = 1 - (1 - sum(once, ZERO)) ** k
    p_res = normalised(excess(p, printed.KSeq(rho).placed(p, q, k)))
    return p_acc + (1 - p_acc) * hit(p_res, normalised(excess(q, once)), k)


def spec_infer_acceptance(p: Law, q: Law, k: int) -> tuple[Fraction, Fraction]:
    """Algorithm 9: the acceptance, and its last term alone."""
    p_rej, m = ONE, [ONE] * len(p)
    for _ in range(k):
        p_rej *= 1 - sum(printed.smaller(p, q), ZERO)
        m = [kept * (1 - r) for kept, r in zip(m, normalised(excess(q, p)), strict=True)]
        p = normalised(excess(p, q))
    last = p_rej * sum((a * (1 - kept) for a, kept in zip(p, m, strict=True)), ZERO)
    return 1 - p_rej + last, last


@claim("D-ACC")
def acceptance_rates(effort: int) -> Finding:
    def rates(p: Law, q: Law, k: int) -> Iterator[dict[str, Fraction]]:
        returned: list[tuple[printed.Rule, Fraction]] = [
            (printed.nss, hit(p, q, k)),
            (printed.naive, sum(printed.smaller(p, q), ZERO) + hit(excess(p, q), q, k - 1)),
            *((printed.KSeq(rho), spectr_acceptance(p, q, k, rho)) for rho in printed.factors(p, q, k)),
            (printed.spec_infer, sum(spec_infer_acceptance(p, q, k), ZERO)),  # so the last term has to be 0
        ]
        yield from ({"returned": one, "acceptance": printed.acceptance(rule, p, q, k)} for rule, one in returned)

    def bounds(p: Law, q: Law, k: int) -> Iterator[dict[str, Fraction]]:
        for one in printed.tournaments(len(p)):
            bound = sum(printed.smaller(p, one.winner_law(q, k)), ZERO)
            yield {"bound": bound, "acceptance": printed.acceptance(one, p, q, k)}

    every_one = [*printed.settings(effort)]
    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        cases={
            "play": (rate for case in every_one for rate in rates(*case)),
            "tournament": (bound for case in every_one for bound in bounds(*case)),
        },
    )


def spectr_branching(p: Law, q: Law, drafts: printed.Tokens, rho: Fraction) -> dict[int, Fraction]:
    """Algorithm 13, with `rho` in place of the root."""
    p_res = normalised(excess(p, printed.KSeq(rho).placed(p, q, len(drafts))))
    a = [min(ONE, p[token] / (rho * q[token])) for token in drafts]
    before = [prod((1 - chance for chance in a[:j]), start=ONE) for j in range(len(a) + 1)]
    tried = {t: sum((a[j] * before[j] for j, drawn in enumerate(drafts) if drawn == t), ZERO) for t in drafts}
    return {token: tried[token] + p_res[token] * before[-1] for token in drafts}


@claim("D-BR")
def branching_probabilities(effort: int) -> Finding:
    def plays(p: Law, q: Law, drafts: printed.Tokens) -> Iterator[dict[str, Any]]:
        a, p_res = min(ONE, p[drafts[0]] / q[drafts[0]]), normalised(excess(p, q))
        returned: list[tuple[printed.Rule, dict[int, Fraction]]] = [
            (printed.nss, {token: p[token] for token in drafts}),
            (printed.naive, {token: (1 - a) * p_res[token] + a * (token == drafts[0]) for token in drafts}),
            *((printed.KSeq(rho), spectr_branching(p, q, drafts, rho)) for rho in printed.factors(p, q, len(drafts))),
        ]
        for rule, one in returned:
            emitted = printed.emission(rule, p, q, drafts)
            yield {"returned": one, "branching": {token: emitted[token] for token in drafts}}

    every_one = [(p, q, drafts) for p, q, k in printed.settings(effort) for drafts, _ in printed.drafted(q, k)]
    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        cases={"play": (play for case in every_one for play in plays(*case))},
    )


def exact_acceptance(rule: printed.Tournament, p: Law, q: Law, k: int) -> Fraction:
    """The acceptance of Algorithm 5: k V^3 steps, where drafts are V^k.

    Beside the winner's distribution r it takes, for each token y, the distribution of the winner together with y not
    having been drafted; the difference is the winner's distribution together with y having been drafted.
    """
    tokens = range(len(q))

    def winner(without: int | None) -> list[Fraction]:
        one = [ZERO if token == without else chance for token, chance in enumerate(q)]
        held = one
        for _ in range(k - 1):
            kept = [held[i] * sum((one[j] * rule.wins[i][j] for j in tokens), ZERO) for i in tokens]
            lost = [one[j] * sum((held[i] * (1 - rule.wins[i][j]) for i in tokens), ZERO) for j in tokens]
            held = [a + b for a, b in zip(kept, lost, strict=True)]
        return held

    r = winner(None)
    refused = excess(r, p)
    rest = normalised(excess(p, r))
    total = sum(printed.smaller(p, r), ZERO)
    for y in tokens:
        if rest[y]:
            apart = winner(y)
            total += rest[y] * sum((refused[x] * (1 - apart[x] / r[x]) for x in tokens if refused[x]), ZERO)
    return total


def acceptance_by_order(order: Sequence[int], p: Law, q: Law, k: int) -> Fraction:
    """The acceptance of Algorithm 5 where `order`, the strongest token first, decides all contests: O(k V) steps.

    Tokens are gone through in order, with k running sums over those before.
    """
    reached, mass = {}, ZERO
    for token in reversed(order):
        mass += q[token]
        reached[token] = mass
    r = tuple(reached[t] ** k - (reached[t] - q[t]) ** k for t in range(len(q)))
    rest, total = normalised(excess(p, r)), sum(printed.smaller(p, r), ZERO)
    sums = [ZERO] * k
    for y in order:
        met = -sum((comb(k, j) * (-q[y]) ** j * sums[j] for j in range(1, k)), ZERO)
        total += rest[y] * met
        refused = 1 - min(ONE, p[y] / r[y]) if r[y] else ZERO
        beaten = reached[y] - q[y]
        sums = [one + refused * (reached[y] ** (k - j) - beaten ** (k - j)) for j, one in enumerate(sums)]
    return total


@claim("D-KHISTI-EXACT")
def khisti_acceptance(effort: int) -> Finding:
    def ladders(p: Law, q: Law, k: int) -> Iterator[dict[str, Fraction]]:
        for one in printed.tournaments(len(p)):
            yield {"formula": exact_acceptance(one, p, q, k), "acceptance": printed.acceptance(one, p, q, k)}

    def orders(p: Law, q: Law, k: int) -> Iterator[dict[str, Fraction]]:
        for order in permutations(range(len(p))):
            rate = printed.acceptance(printed.by_order(order), p, q, k)
            yield {"running_sums": acceptance_by_order(order, p, q, k), "acceptance": rate}

    def loose(p: Law, q: Law, k: int) -> bool:
        rule = printed.untuned(p, q)
        return k == 2 and printed.acceptance(rule, p, q, k) > sum(printed.smaller(p, rule.winner_law(q, k)), ZERO)

    every_one = [*printed.settings(effort)]
    p, q, k = smallest(every_one, loose)
    rule = printed.untuned(p, q)
    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        {
            "example": "the exact rate, and the bound of Algorithm 10",
            "p": p,
            "q": q,
            "k": k,
            "order": sorted(range(len(p)), key=lambda i: -sum(rule.wins[i], ZERO)),
            "bound": sum(printed.smaller(p, rule.winner_law(q, k)), ZERO),
            "acceptance": exact_acceptance(rule, p, q, k),
        },
        cases={
            "tournament": (one for case in every_one for one in ladders(*case)),
            "order": (one for case in every_one for one in orders(*case)),
        },
    )


def l1(p: Law, q: Law) -> Fraction:
    """The L1 distance of p and q."""
    return sum((abs(a - b) for a, b in zip(p, q, strict=True)), ZERO)


@claim("D-L1-ALL")
def rates_and_l1(effort: int) -> Finding:
    @cache
    def found(p: Law, q: Law, k: int) -> dict[str, Fraction]:
        rates = {name: printed.acceptance(rule, p, q, k) for name, rule in printed.RULES.items()}
        return rates | {"SpecTr": printed.acceptance(printed.KSeq(bracket(p, q, k, 10)[1]), p, q, k)}

    two = [(p, q) for p, q, k in printed.settings(effort) if k == 2]

    def rises(near: tuple[Law, Law], far: tuple[Law, Law]) -> bool:
        if not l1(*near) < l1(*far):
            return False
        low, high = found(*near, 2), found(*far, 2)
        return all(low[name] < high[name] for name in low)

    def rates(p: Law, q: Law, k: int) -> Iterator[dict[str, Any]]:
        for name, rate in found(p, q, k).items():
            slack = Fraction(k, 2**10) if name == "SpecTr" else ZERO
            yield {"solver": name, "k": k, "acceptance": rate, "L1": l1(p, q), "bracket": slack}

    def compared(near: tuple[Law, Law], far: tuple[Law, Law], k: int) -> dict[str, Any]:
        falls = [found(*near, k)[name] - found(*far, k)[name] for name in found(*near, k) if k > 1 or name != "NSS"]
        return {"L1_of_one": l1(*near), "L1_of_the_other": l1(*far), "least_fall": min(falls)}

    every_one = [*printed.settings(effort)]
    near, far = smallest(product(two, repeat=2), rises)
    return Finding(
        {"count": len(every_one), "over": printed.over(effort)},
        {
            name: {"p": p, "q": q, "k": 2, "l1": l1(p, q), "acceptance": found(p, q, 2)}
            for name, (p, q) in (("nearer", near), ("farther", far))
        },
        cases={
            "rate": (rate for case in every_one for rate in rates(*case)),
            "pair": (compared(near, far, 2) for near, far in product(two, repeat=2)),
            "pair_with_one_draft": (compared(near, far, 1) for near, far in product(two, repeat=2)),
        },
    )
