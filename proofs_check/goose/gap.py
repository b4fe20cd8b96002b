"""Proposition 3: how the gap between two sources and one depends on the rates."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

from proofs_check.claims import Case, Finding, claim, second, smallest
from proofs_check.goose.budgets import one_source, two_sources
from proofs_check.goose.walks import TwoSourceTree, committed, pairs, rates, reached, shapes

Rates = tuple[Fraction, Fraction]

SAME_SPINE = (12, Fraction(1, 4), Fraction(2, 13), Fraction(3, 20))
"""The smallest budget, p_s and two p_t, found by search over denominators of p_s up to 6 and of p_t up to 24."""


def gap(n: int, s: Fraction, t: Fraction) -> Fraction:
    """The best yield of two sources minus the best yield of one source with rate p_t."""
    return two_sources(s, t, n)[n] - one_source(t, n)[n]


def _falls(n: int, low: Rates, high: Rates) -> bool:
    (s, t), (more_s, more_t) = low, high
    return more_s / more_t > s / t and gap(n, more_s, more_t) < gap(n, s, t)


def _rising(n: int, t: Fraction) -> Iterator[dict[str, Fraction]]:
    spines = sorted(s for s in rates(6) if s >= t)
    for a, b in pairwise(spines):
        yield {"ratio": a / t, "larger_ratio": b / t, "gap": gap(n, a, t), "gap_at_larger_ratio": gap(n, b, t)}


@claim("G-P3-GAP")
def monotone(effort: int) -> Finding:
    n, low, high = smallest(product((2, 3), pairs(4), pairs(4)), _falls)
    budget, s, nearer, farther = SAME_SPINE
    if not (nearer > farther and gap(budget, s, nearer) > gap(budget, s, farther)):
        raise ArithmeticError("the gap falls with p_t")

    most = 10 * effort
    same = [*product(range(1, most + 1), rates(6))]
    compared = {"ratio": low[0] / low[1], "larger_ratio": high[0] / high[1]}
    return Finding(
        {"budget": budget, "s": s, "nearer": nearer, "farther": farther, "count": len(same), "most": most},
        {
            "budget": n,
            "rates": low,
            "gap": gap(n, *low),
            "rates_of_larger_ratio": high,
            "smaller_gap": gap(n, *high),
            "same_p_s": {
                "budget": budget,
                "p_s": s,
                "p_t": [nearer, farther],
                "gaps": [gap(budget, s, nearer), gap(budget, s, farther)],
            },
        },
        cases={
            "rates": [compared | {"gap": gap(n, *low), "gap_at_larger_ratio": gap(n, *high)}],
            "rates_with_the_same_p_t": (step for one in same for step in _rising(*one)),
        },
    )


@second("G-P3-GAP")
def monotone_again(case: Case) -> None:
    """Second check: add up the outcomes of all trees; where there are too many trees, use the library's best ones."""

    def by_trees(n: int, s: Fraction, t: Fraction) -> Fraction:
        both, one = (max(committed(shape, rate, t) for shape in shapes(n)) for rate in (s, t))
        return both - one

    def by_library(n: int, s: Fraction, t: Fraction) -> Fraction:
        return reached(TwoSourceTree.best(s, t, n), s, t) - reached(TwoSourceTree.best(0, t, n), t, t)

    assert by_trees(case["budget"], *case["rates"]) == case["gap"]
    assert by_trees(case["budget"], *case["rates_of_larger_ratio"]) == case["smaller_gap"] < case["gap"]
    other = case["same_p_s"]
    gaps = [by_library(other["budget"], other["p_s"], t) for t in other["p_t"]]
    assert gaps == other["gaps"]
    assert gaps[0] > gaps[1]
