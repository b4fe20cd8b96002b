"""The largest of many unbiased estimates."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import comb, prod
from typing import Any

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.plays import ONE, ZERO
from proofs_check.printed import decimals

ACTIONS, SHAPES = 324, 233
"""The actions of Eq. (8), and the different trees among them (D-EQ4)."""
TREES = (1, 4, 16)
"""Drafted trees for each estimate."""
HALF = Fraction(1, 2)
Estimate = dict[Fraction, Fraction]
"""The distribution of an estimate."""


def estimate(rate: Fraction, trees: int) -> Estimate:
    """The mean tokens over `trees` trees, each of which gives 2 tokens with probability `rate`, else 1."""
    return {
        1 + Fraction(k, trees): comb(trees, k) * rate**k * (1 - rate) ** (trees - k)
        for k in range(trees + 1)
        if 0 < rate < 1 or k == rate * trees
    }


def largest(one: Estimate, count: int) -> Fraction:
    """The mean of the largest of `count` independent estimates with this distribution."""
    total, below, before = ZERO, ZERO, ZERO
    for value in sorted(one):
        below += one[value]
        total += value * (below**count - before)
        before = below**count
    return total


def chosen(rates: Sequence[Fraction], trees: int) -> tuple[Fraction, Fraction]:
    """Mean of the largest estimate, and of the true value of the action that has it, the first among equals."""
    found = [estimate(rate, trees) for rate in rates]
    claimed = truth = ZERO
    for outcome in product(*(one.items() for one in found)):
        weight = prod((chance for _, chance in outcome), start=ONE)
        values = [value for value, _ in outcome]
        best = values.index(max(values))
        claimed += weight * values[best]
        truth += weight * (1 + rates[best])
    return claimed, truth


@claim("D-SELECT")
def best_of_many(effort: int) -> Finding:
    """Proof: the largest estimate is at least the estimate of each action, so its mean is at least the mean of each; it
    is larger than the best mean unless the best action's estimate is the largest with certainty. The true value of
    the chosen action is a mean of true values, so it is at most the best of them.
    """
    rates = [ZERO, Fraction(1, 3), HALF, Fraction(2, 3), ONE]
    cases = [(pick, trees) for n in (1, 2, 3) for pick in product(rates, repeat=n) for trees in range(1, 2 + effort)]
    pick, trees = smallest(cases, lambda pick, trees: chosen(pick, trees)[0] > 1 + max(pick))

    def values(pick: tuple[Fraction, ...], trees: int) -> dict[str, Any]:
        claimed, truth = chosen(pick, trees)
        best = pick.index(max(pick))
        others = [rate for at, rate in enumerate(pick) if at != best]
        sure = all(min(estimate(pick[best], trees)) >= max(estimate(rate, trees)) for rate in others)
        return {"largest_estimate": claimed, "chosen_value": truth, "best_value": 1 + pick[best], "certain": sure}

    found = {n: largest(estimate(HALF, n), ACTIONS) for n in TREES}
    return Finding(
        {"count": len(cases), "actions": ACTIONS, "trees": ", ".join(map(str, TREES)), "truth": 1 + HALF}
        | {"found": ", ".join(map(decimals, found.values())), "shapes": decimals(largest(estimate(HALF, 16), SHAPES))},
        {"tokens_of_each_action": [1 + rate for rate in pick], "trees_for_each_estimate": trees}
        | {"mean_of_the_largest_estimate": chosen(pick, trees)[0]}
        | {"actions": ACTIONS, "largest_by_trees": {str(n): decimals(value) for n, value in found.items()}},
        cases={"choice": (values(*case) for case in cases)},
    )


@second("D-SELECT")
def best_of_many_again(case: Case) -> None:
    """Second check: one action after another is compared with the largest so far."""
    pair = estimate(HALF, 1)
    assert sum(x * y * max(a, b) for (a, x), (b, y) in product(pair.items(), repeat=2)) == 2 - Fraction(1, 4)
    assert case["mean_of_the_largest_estimate"] > max(case["tokens_of_each_action"])
    for trees, printed in case["largest_by_trees"].items():
        one = {value: float(chance) for value, chance in estimate(HALF, int(trees)).items()}
        so_far = one
        for _ in range(case["actions"] - 1):
            merged = dict.fromkeys(one, 0.0)
            for (a, x), (b, y) in product(so_far.items(), one.items()):
                merged[max(a, b)] += x * y
            so_far = merged
        assert f"{sum(float(value) * chance for value, chance in so_far.items()):.2f}" == printed
