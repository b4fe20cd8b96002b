"""Proposition 3: how the gap between two sources and one moves with the rates."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

from proofs_check.goose.budgets import one_source, spine_with_chains, two_sources
from proofs_check.goose.dominance import CLOSE, again_by_trees, compared, shape_of
from proofs_check.goose.walks import committed, pairs, rates, reached, shapes
from proofs_check.verdict import Verdict, claim, every, second, smallest
from spectheory import goose

Rates = tuple[Fraction, Fraction]

SAME_SPINE = (12, Fraction(1, 4), Fraction(2, 13), Fraction(3, 20))
"""Budget, p_s, and two p_t: found by search over denominators up to 6 of p_s and 24 of p_t, no smaller budget."""


def gap(n: int, s: Fraction, t: Fraction) -> Fraction:
    """The best of two sources less the best of rate p_t."""
    return two_sources(s, t, n)[n] - one_source(t, n)[n]


def _cases() -> Iterator[tuple[int, Rates, Rates]]:
    return ((n, low, high) for n in (2, 3) for low, high in product(pairs(4), repeat=2))


def _falls(case: tuple[int, Rates, Rates]) -> bool:
    n, (s, t), (more_s, more_t) = case
    return more_s / more_t > s / t and gap(n, more_s, more_t) < gap(n, s, t)


def _rising(case: tuple[int, Fraction]) -> bool:
    n, t = case
    spines = sorted(s for s in rates(6) if s >= t)
    return all(gap(n, a, t) < gap(n, b, t) for a, b in pairwise(spines))


@claim("G-P3-GAP", source="Goose, Proposition 3, and E.3, Step 4")
def monotone(effort: int) -> Verdict:
    """The gap between the best tree of two sources and the best of rate p_t, of the same budget, increases
    monotonically with the ratio p_s / p_t.

    As Proposition 3 prints it, the ratio alone decides; E.3 keeps some rate fixed, which one is lost from the text.
    Budgets of at least 2, 0 < p_t < p_s < 1, meaning (2).
    """
    n, low, high = smallest(_cases(), _falls)
    budget, s, nearer, farther = SAME_SPINE
    if not (nearer > farther and gap(budget, s, nearer) > gap(budget, s, farther)):
        raise ArithmeticError("the gap falls with p_t")

    most = 10 * effort
    count = every(product(range(1, most + 1), rates(6)), _rising)
    return Verdict(
        "corrected",
        "The gap is no function of the ratio: it scales with the rates. Nor is it monotone at fixed p_s: for "
        f"{budget} nodes and p_s = {s} it is larger at p_t = {nearer} than at p_t = {farther}, as forks pay for two "
        "sources first. At fixed p_t only the first part of the difference depends on p_s. Let S(n) be the most tokens "
        "below a spine node with n nodes, G(n) the most below a branch node, and m the nodes given to the next spine "
        "token: S(n) = p_s (1 + S(m)) + (1 - p_s) G(n - 1 - m) at the best m. Then 1 + S(m) > G(n - 1 - m), or else "
        "the branches alone would do as well with fewer nodes, so for the same tree the yield grows with p_s, by "
        f"induction over the spine, and a best tree for the larger p_s is no worse. Confirmed in {count} cases.",
        f"counterexamples, one by search in order of size, one stored; proof in words; enumeration for B <= {most}, "
        "denominators <= 6",
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
        "At fixed p_t and budget B >= 1 the gap of the best trees increases strictly with p_s >= p_t, and so with the "
        "ratio.",
    )


@second("G-P3-GAP")
def monotone_again(verdict: Verdict) -> str:
    """All trees outcome by outcome, and the library's best trees where there are too many."""
    case = verdict.counterexample or {}

    def by_trees(n: int, s: Fraction, t: Fraction) -> Fraction:
        return max(committed(shape, s, t) for shape in shapes(n)) - max(committed(shape, t, t) for shape in shapes(n))

    def by_library(n: int, s: Fraction, t: Fraction) -> Fraction:
        both, one = (goose.optimal_tree(rate, float(t), n) for rate in (float(s), 0.0))
        return reached(shape_of(both), s, t) - reached(shape_of(one), t, t)

    assert by_trees(case["budget"], *case["rates"]) == case["gap"]
    assert by_trees(case["budget"], *case["rates_of_larger_ratio"]) == case["smaller_gap"] < case["gap"]
    other = case["same_p_s"]
    gaps = [by_library(other["budget"], other["p_s"], t) for t in other["p_t"]]
    assert gaps == other["gaps"]
    assert gaps[0] > gaps[1]
    return "all trees outcome by outcome for the first case, the shapes of spectheory's optimal_tree for the second."


@claim("G-P3-VANISH", source="Goose, Proposition 3")
def vanishing(effort: int) -> Verdict:
    """The gap vanishes as p_s falls to p_t: the yield of the spine tree with optimally allocated branches tends to that
    of the best tree of one source.

    The spine tree as in G-P3-DOM: any spine with chains of any numbers and lengths. Its best yield is the largest of
    finitely many polynomials, so the limit is its value at p_s = p_t. Meaning (2).
    """
    n, cases = CLOSE[0], rates(8 + 8 * effort)
    t = smallest(cases, lambda t: spine_with_chains(t, t, n)[n] < one_source(t, n)[n])
    every(
        product(range(1, n), cases), lambda c: spine_with_chains(c[1], c[1], c[0])[c[0]] == one_source(c[1], c[0])[c[0]]
    )

    def small(case: tuple[int, Rates]) -> bool:
        n, (s, t) = case
        return 0 < gap(n, s, t) <= n * n * (s - t) and gap(n, t, t) == 0

    most = 10 * effort
    count = every(product(range(1, most + 1), pairs(6)), small)
    return Verdict(
        "corrected",
        f"Chains cannot do what forks do: the limit is below 0 from {n} nodes on, the fewest with p_t of denominator "
        f"at most {8 + 8 * effort}. For the best of all trees, take the best tree for p_s and draw its tokens with "
        "the rates p_s and p_t of its spine from the same numbers: the draws differ with probability at most n (p_s - "
        f"p_t), and then by at most n tokens; with p_t everywhere it is a tree of one source. Confirmed in {count} "
        "cases.",
        f"counterexample by search; coupling argument in words; enumeration for B <= {most}, denominators <= 6",
        compared(n, t, t) | {"limit_of_the_gap": spine_with_chains(t, t, n)[n] - one_source(t, n)[n]},
        "For the best of all trees of two sources of n nodes, 0 < gap <= n^2 (p_s - p_t) for p_s > p_t, so it "
        "vanishes. For spines whose branches are chains it tends to a limit that is negative in general.",
    )


@second("G-P3-VANISH")
def vanishing_again(verdict: Verdict) -> str:
    """Every spine with chains, one by one, at the limit."""
    case = verdict.counterexample or {}
    count = again_by_trees(case)
    assert case["best_spine_with_chains"] - case["best_one_source"] == case["limit_of_the_gap"] < 0
    t, n = case["p_t"], case["budget"]
    at_limit = goose.optimal_tree(float(t), float(t), n)
    assert reached(shape_of(at_limit), t, t) == case["best_one_source"]
    return f"all {count} spines with chains at p_s = p_t; spectheory's best tree there yields what one source does."
