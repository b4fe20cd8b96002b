"""Acceptance rates of the node solvers (Section C), and how they depend on p and q."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations, product
from math import comb

import sympy as sp

from proofs_check.delayed_trees import solver_formulas as printed
from proofs_check.delayed_trees.solver_factor import bracket
from proofs_check.delayed_trees.solver_printed import (
    Khisti,
    KSeq,
    Setting,
    acceptance,
    by_order,
    factors,
    naive,
    nss,
    over,
    settings,
    smaller,
    spec_infer,
    tournaments,
    untuned,
)
from proofs_check.delayed_trees.walks import excess, normalised
from proofs_check.plays import ONE, ZERO
from proofs_check.small_drafts import Law
from proofs_check.verdict import Verdict, claim, every, smallest


@claim("D-ACC", source="Delayed tree expansion, Section C, Algorithms 6 to 10")
def acceptance_rates(effort: int) -> Verdict:
    """Algorithms 6, 7, 8 and 9 return the acceptance rates (Definition 5.1) of NSS, Naive, SpecTr and SpecInfer, and
    Algorithm 10 a lower bound of Khisti's, for all p, q and k >= 1.

    Where a printed step divides 0 by 0 (Algorithm 8 for p = q, and for p and q without a common token; Algorithm 9
    once p_i = q) the result multiplies 0, and 0 is put for it. Algorithm 8 is checked for every factor in use, lossless
    or not; Algorithm 10 for any tournament, with r the law of its winner.
    """

    def right(case: Setting) -> bool:
        played = acceptance(spec_infer, *case)
        return (
            printed.nss_acceptance(*case) == acceptance(nss, *case)
            and printed.naive_acceptance(*case) == acceptance(naive, *case)
            and all(printed.spectr_acceptance(*case, r) == acceptance(KSeq(r), *case) for r in factors(*case))
            and printed.spec_infer_acceptance(*case) == (played, ZERO)
        )

    def bounded(case: Setting) -> bool:
        p, q, k = case
        played = ((acceptance(t, *case), t.winner_law(q, k)) for t in tournaments(len(p)))
        return all(sum(smaller(p, r), ZERO) <= found for found, r in played)

    count = every(settings(effort), right)
    every(settings(effort), bounded)
    return Verdict(
        "holds",
        "6: Y is independent of the drafts. 7: a residual token has p > q, so it is not the rejected X_1, and it is "
        "independent of the others. 8: rejected drafts are independent, of law r, and so is the residual token. 9: the "
        "same round by round; its last term is always 0, since p_k(t) > 0 forces p_i(t) > q(t) in every round. 10: the "
        "winner is a draft and is accepted with probability sum min(p, r). Each was compared with its algorithm of "
        f"Section B, played over every draft and coin, in {count:,} settings ({over(effort)}), Algorithm 8 at every "
        "bend of beta and between, Algorithm 10 with every order of the tokens and with fair coins. Code needs a guard "
        "for 0 / 0: p = q is what a top-p of one token makes.",
        "a derivation, and enumeration in Fractions",
    )


def exact_acceptance(rule: Khisti, p: Law, q: Law, k: int) -> Fraction:
    """The acceptance of Algorithm 5: k V^3 steps, where drafts are V^k.

    Beside the winner's law r it takes, for each token y, the law of the winner together with y not having been drafted;
    the difference is the winner's law together with y having been drafted.
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
    total = sum(smaller(p, r), ZERO)
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
    rest, total = normalised(excess(p, r)), sum(smaller(p, r), ZERO)
    sums = [ZERO] * k
    for y in order:
        met = -sum((comb(k, j) * (-q[y]) ** j * sums[j] for j in range(1, k)), ZERO)
        total += rest[y] * met
        refused = 1 - min(ONE, p[y] / r[y]) if r[y] else ZERO
        beaten = reached[y] - q[y]
        sums = [one + refused * (reached[y] ** (k - j) - beaten ** (k - j)) for j, one in enumerate(sums)]
    return total


@claim("D-KHISTI-EXACT", source="Delayed tree expansion, Section C, before Algorithm 6")
def khisti_acceptance(effort: int) -> Verdict:
    """One cannot get an exact acceptance rate for Khisti efficiently.

    Efficiently is read as: in a number of steps that is polynomial in the tokens V and the drafts k; and, as that may
    not convince for V of 100,000, where one order decides all contests, in nearly as few as the bound takes. The
    tournament is the ladder of pairs, with its chances given, as they are once the linear programs are solved.
    """

    def agrees(case: Setting) -> bool:
        return all(exact_acceptance(t, *case) == acceptance(t, *case) for t in tournaments(len(case[0])))

    def agrees_in_order(case: Setting) -> bool:
        orders = permutations(range(len(case[0])))
        return all(acceptance_by_order(o, *case) == acceptance(by_order(o), *case) for o in orders)

    def loose(case: Setting) -> bool:
        p, q, k = case
        rule = untuned(p, q)
        return k == 2 and acceptance(rule, *case) > sum(smaller(p, rule.winner_law(q, k)), ZERO)

    p, q, k = smallest(settings(effort), loose)
    count = every(settings(effort), agrees)
    every(settings(effort), agrees_in_order)
    rule = untuned(p, q)
    return Verdict(
        "false",
        "In O(k V^3): for each y let u_y be the law of the winner on the event that y is not drafted, from the same "
        "ladder with y left out of q: k V^2 steps. Then r - u_y is the winner's law on the event that y is drafted, "
        "and the residual is independent of the drafts given the winner. In O(k V + V log V) where one order decides: "
        "sort, and let G be the mass of x and of all that x beats. Token y is drafted and loses to x only if x comes "
        "before y; that x wins and y is not drafted has the probability (G - q_y)^k - (G - q_x - q_y)^k, all drafts "
        "being x or beaten by x, none y, and not all beaten. By the binomial theorem x wins and y is drafted with "
        "probability -sum_{j = 1}^{k-1} C(k, j) (-q_y)^j (G^(k-j) - (G - q_x)^(k-j)). Here y stands in powers of q_y "
        "alone, so one running sum along the order for each j, of (1 - min(1, p(x) / r(x))) (G^(k-j) - (G - "
        f"q_x)^(k-j)), serves all y. Each is equal to the play over all drafts in {count:,} settings ({over(effort)}) "
        "with every order of the tokens, the first with fair coins too. The algorithm is what refutes; what is "
        "shown is an example of its rate, one above the bound of Algorithm 10.",
        "an algorithm, a derivation, and enumeration in Fractions",
        {
            "example": "the exact rate, and the bound of Algorithm 10",
            "p": p,
            "q": q,
            "k": k,
            "order": sorted(range(len(p)), key=lambda i: -sum(rule.wins[i], ZERO)),
            "bound": sum(smaller(p, rule.winner_law(q, k)), ZERO),
            "acceptance": exact_acceptance(rule, p, q, k),
        },
        "The rate is sum min(p, r) + sum_y res(y) sum_x (1 - min(1, p(x) / r(x))) (r(x) - u_y(x)), exact after "
        "O(k V^3) steps, where u_y(x) is the probability that x wins and y is not drafted. Where an order decides all "
        "contests but those of a few tokens, as with a truncated program, O(k V^2) are enough, and where one order "
        "decides all contests O(k V + V log V): spectheory.otlp.Khisti.",
    )


def l1(p: Law, q: Law) -> Fraction:
    """The L1 distance."""
    return sum((abs(a - b) for a, b in zip(p, q, strict=True)), ZERO)


@claim("D-L1-ALL", source="Delayed tree expansion, Section 5", stated=False)
def rates_and_l1(effort: int) -> Verdict:
    """Node-wise acceptance of all OT-based methods falls with depth, which "is directly explained by the fact that L1
    target-draft deviations increase with depth".

    As a statement on laws: for two drafts the acceptance rate of each of NSS, NaiveTree, SpecTr and SpecInfer falls, or
    does not rise, where the L1 distance of p and q grows. SpecTr with the upper end of a bracket of rho*.
    """
    rules = {"NSS": nss, "NaiveTree": naive, "SpecInfer": spec_infer}

    def found(p: Law, q: Law, k: int) -> dict[str, Fraction]:
        rates = {name: acceptance(rule, p, q, k) for name, rule in rules.items()}
        return rates | {"SpecTr": acceptance(KSeq(bracket(p, q, k, 10)[1]), p, q, k)}

    two = [(p, q) for p, q, k in settings(effort) if k == 2]

    def rises(case: tuple[tuple[Law, Law], tuple[Law, Law]]) -> bool:
        near, far = case
        if not l1(*near) < l1(*far):
            return False
        low, high = found(*near, 2), found(*far, 2)
        return all(low[name] < high[name] for name in low)

    def bounded(case: Setting) -> bool:
        p, q, k = case
        least = ONE - l1(p, q) / 2
        held = found(p, q, k)
        return all(held[name] >= least - Fraction(k, 2**10) * (name == "SpecTr") for name in held if name != "NSS")

    near, far = smallest(((one, other) for one, other in product(two, repeat=2)), rises)
    count = every(settings(effort), bounded)
    return Verdict(
        "corrected",
        "The distance does not see how the mass is spread: two drafts of a spread q are rarely alike and catch more. "
        "In the counterexample p and q are farther apart and all four rules accept more. With k = 1 Naive's rate is "
        "1 - L1 / 2 (D-L1), and more drafts only add to it for NaiveTree, SpecInfer (D-KMONO) and SpecTr, which "
        f"accepts sum min(p, rho* q), rho* >= 1: so in {count:,} settings ({over(effort)}; SpecTr up to the bracket).",
        "counterexample by search; enumeration in Fractions",
        {
            name: {"p": p, "q": q, "k": 2, "l1": l1(p, q), "acceptance": found(p, q, 2)}
            for name, (p, q) in (("nearer", near), ("farther", far))
        },
        "1 - L1 / 2 is a lower bound of the acceptance rate of NaiveTree, SpecInfer and SpecTr for every k, and for "
        "k = 1 it is the rate of these. For k > 1, and for NSS, the rate is no function of the distance.",
    )


@claim("D-L1", source="Delayed tree expansion, Section 5")
def naive_and_l1(effort: int) -> Verdict:
    """For one draft the acceptance rate of Naive falls linearly in the L1 distance of p and q.

    Read as: it is one linear function of it, for all p and q on any vocabulary.
    """
    a, b = sp.symbols("a b", nonnegative=True)
    distance = {True: a - b, False: b - a}  # |a - b| for a >= b, and for a < b
    least = {True: b, False: a}
    if any(sp.expand(least[larger] - (a + b - distance[larger]) / 2) != 0 for larger in (True, False)):
        raise ArithmeticError("min(a, b) is not (a + b - |a - b|) / 2")

    def linear(case: Setting) -> bool:
        p, q, _ = case
        return acceptance(naive, p, q, 1) == ONE - sum((abs(a - b) for a, b in zip(p, q, strict=True)), ZERO) / 2

    count = every((case for case in settings(effort) if case[2] == 1), linear)
    return Verdict(
        "holds",
        "The rate is sum min(p, q), and min(a, b) = (a + b - |a - b|) / 2, for a >= b and for a < b (sympy); summed "
        f"over the tokens it is 1 - ||p - q||_1 / 2. Equal to the play over every draft and coin in {count:,} settings "
        f"({over(effort)}). For more drafts the distance alone does not say the rate.",
        "a symbolic proof",
    )
