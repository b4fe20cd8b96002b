"""Eq. (1) where consecutive spine tokens are accepted together more often than independent ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

import sympy

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.bound import Setting, eq_1
from proofs_check.goose.walks import chains, coins, pairs, rates, walked

SpineOutcomes = dict[tuple[bool, ...], Fraction]
"""The distribution of which spine tokens are right."""


def pair_law(s: Fraction, both: Fraction) -> SpineOutcomes:
    """Two spine tokens, each right with probability s, both with probability `both`; independence means s^2."""
    return {(True, True): both, (True, False): s - both, (False, True): s - both, (False, False): 1 - 2 * s + both}


def simulated(joint: SpineOutcomes, t: Fraction, setting: Setting) -> Fraction:
    """E[tau] of the committed walk, outcome by outcome; spine tokens by their distribution, others independent."""
    tree = chains(*setting)
    length = len(setting[0])
    free = len(tree.parent) - 1 - length
    total = Fraction(1)
    for (spine, weight), (rest, chance) in product(joint.items(), coins([t] * free)):
        total += weight * chance * walked(tree, [*spine, *rest])
    return total


def exact(joint: SpineOutcomes, s: Fraction, t: Fraction, setting: Setting) -> Fraction:
    """The repaired statement: Eq. (1) and a correction for each spine depth."""
    widths, depth = setting
    chain = sum((t**j for j in range(depth)), Fraction(0))
    found = [(1 - (1 - t) ** b) * chain for b in (*widths, 0)]
    total = eq_1(s, t, widths, depth)
    for k in range(1, len(widths) + 1):
        total += (together(joint, range(k)) - s**k) * (1 - found[k - 1] + found[k])
    return total


XOR: SpineOutcomes = {(a, b, a != b): Fraction(1, 4) for a, b in product((True, False), repeat=2)}
"""Three tokens of which two or none are right: each has probability 1/2, each two are independent, never all three."""


def together(joint: SpineOutcomes, tokens: Sequence[int]) -> Fraction:
    """The probability that all of these tokens are right."""
    return sum((weight for right, weight in joint.items() if all(right[token] for token in tokens)), Fraction(0))


def pairs_only() -> dict[str, Any]:
    """XOR, and XOR with one chance in six that all tokens go together: pairs correlated, a_3 below p_s^3."""
    mixed = {outcome: Fraction(5, 6) * weight for outcome, weight in XOR.items()}
    for outcome in product((True, False), repeat=3):
        if len(set(outcome)) == 1:
            mixed[outcome] = mixed.get(outcome, Fraction(0)) + Fraction(1, 12)
    half, shown = Fraction(1, 2), {}
    for name, joint in (("independent_pairs", XOR), ("positive_pairs", mixed)):
        pair = {together(joint, two) for two in combinations(range(3), 2)}
        if {together(joint, (one,)) for one in range(3)} != {half} or min(pair) < half**2 or len(pair) > 1:
            raise ArithmeticError("the tokens are not as correlated as stated")
        if not together(joint, range(3)) < half**3:
            raise ArithmeticError("all three tokens are right with probability 1/8 or more")
        law = {"".join("01"[one] for one in right): weight for right, weight in joint.items()}
        shown[name] = {"law": law, "pair": pair.pop(), "all": together(joint, range(3)), "p_s^3": half**3}
    return shown


def wide() -> dict[str, Any]:
    """A yield below Eq. 1 for correlated spine tokens with a branch at each spine token, as in a spine tree."""
    s, t, both, setting = Fraction(3, 4), Fraction(2, 3), Fraction(21, 32), ((1, 1), 2)
    found = {"p_s": s, "p_t": t, "both_spine_tokens_right": both, "widths": setting[0], "branch_depth": setting[1]}
    worth = {"eq_1": eq_1(s, t, *setting), "yield": simulated(pair_law(s, both), t, setting)}
    if not worth["yield"] < worth["eq_1"]:
        raise ArithmeticError("the yield is not below Eq. 1")
    return found | worth


def correlated(s: Fraction) -> list[Fraction]:
    """Probabilities that both tokens are right, above the independent s^2 and up to s."""
    return [s * s + (s - s * s) * Fraction(part, 2) for part in (1, 2)]


def _cases() -> Iterator[tuple[Setting, Fraction, Fraction, Fraction]]:
    for nodes in range(2, 6):
        for (s, t), depth, b1, b2 in product(pairs(5), (1, 2, 3), range(3), range(3)):
            if 2 + depth * (b1 + b2) == nodes:
                yield from ((((b1, b2), depth), s, t, both) for both in correlated(s))


def _gap(setting: Setting, s: Fraction, t: Fraction, both: Fraction) -> Fraction:
    return simulated(pair_law(s, both), t, setting) - eq_1(s, t, *setting)


@claim("G-P1-CORR")
def correlation(effort: int) -> Finding:
    setting, s, t, both = smallest(_cases(), lambda *case: _gap(*case) < 0)
    loose = smallest(_cases(), lambda *case: _gap(*case) > 0)

    def laws() -> Iterator[tuple[SpineOutcomes, Fraction, Setting]]:
        """Every distribution of two or three tokens on a grid, correlated or not, equal rates or not."""
        for length, parts in ((2, 3 + effort), (3, 2)):
            outcomes = list(product((False, True), repeat=length))
            for counts in product(range(parts + 1), repeat=len(outcomes)):
                if sum(counts) == parts:
                    joint = {o: Fraction(c, parts) for o, c in zip(outcomes, counts, strict=True) if c}
                    yield joint, Fraction(2, 3), ((1,) * length, 2 if length == 2 else 1)

    def values(joint: SpineOutcomes, t: Fraction, setting: Setting, s: Fraction) -> dict[str, Any]:
        chain = sum((t**j for j in range(setting[1])), Fraction(0))
        found = [(1 - (1 - t) ** b) * chain for b in (*setting[0], 0)]
        lead = min(together(joint, range(k)) - s**k for k in range(1, len(setting[0]) + 1))
        told = {"true_yield": simulated(joint, t, setting), "Eq_1_and_correction": exact(joint, s, t, setting)}
        steepest = max(one - other for one, other in pairwise(found))
        return told | {"Eq_1": eq_1(s, t, *setting), "least_lead": lead, "steepest": steepest}

    def positive(setting: Setting, s: Fraction, t: Fraction, both: Fraction) -> dict[str, Any]:
        return values(pair_law(s, both), t, setting, s)

    every_one = [*laws()]
    return Finding(
        {"count": len(every_one), "size": 3 + effort},
        {
            "p_s": s,
            "p_t": t,
            "both_spine_tokens_right": both,
            "widths": setting[0],
            "branch_depth": setting[1],
            "eq_1": eq_1(s, t, *setting),
            "yield": simulated(pair_law(s, both), t, setting),
            **chains(*setting).shown(),
            "one_branch_at_each": wide(),
            "pairs_only": pairs_only(),
            "looser": {"p_s": loose[1], "p_t": loose[2], "both_spine_tokens_right": loose[3], "widths": loose[0][0]},
        },
        cases={
            "correlated_spine": (positive(*one) for one in _cases()),
            "spine": (values(*one, s) for one in every_one for s in rates(3)),
        },
    )


@second("G-P1-CORR")
def correlation_again(case: Case) -> None:
    """Second check: compare the repaired statement with a symbolic sum over the places where the spine breaks."""
    for length in (1, 2, 3, 4):
        s, c = sympy.symbols("s c")
        a = [sympy.Integer(1), *sympy.symbols(f"a1:{length + 1}")]
        q = [*sympy.symbols(f"q1:{length + 1}"), sympy.Integer(0)]
        truth = 1 + sum(a[k] + (a[k - 1] - a[k]) * q[k - 1] * c for k in range(1, length + 1))
        printed = 1 + sum(s**k + s ** (k - 1) * (1 - s) * q[k - 1] * c for k in range(1, length + 1))
        told = sum((a[k] - s**k) * (1 - (q[k - 1] - q[k]) * c) for k in range(1, length + 1))
        assert sympy.expand(truth - printed - told) == 0
    for one in (case, case["one_branch_at_each"]):
        s, t, both, (b1, b2) = one["p_s"], one["p_t"], one["both_spine_tokens_right"], one["widths"]
        chain = sum(t**j for j in range(one["branch_depth"]))
        first, later = ((1 - (1 - t) ** b) * chain for b in (b1, b2))
        assert both > s * s
        assert 1 + s + s * s + (1 - s) * first + s * (1 - s) * later == one["eq_1"]
        assert 1 + s + both + (1 - s) * first + (s - both) * later == one["yield"] < one["eq_1"]
    for law in case["pairs_only"].values():
        half = Fraction(1, 2)
        first, second_, third = ([right[i] == "1" for right in law["law"]] for i in range(3))
        weights = list(law["law"].values())
        for one, other in ((first, second_), (first, third), (second_, third)):
            covariance = sum(w * (a - half) * (b - half) for w, a, b in zip(weights, one, other, strict=True))
            assert covariance == law["pair"] - half**2 >= 0
        assert law["all"] == law["law"].get("111", 0) < half**3
